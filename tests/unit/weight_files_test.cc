// Weights in one file and in several with an index: written as Hugging Face's tools do, read from any of the forms, and
// refused where index and files do not belong together.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "schemas/plan/weight_files.h"
#include "tests/unit/temp_folder.h"

namespace fs = std::filesystem;
using namespace piper;
using namespace piper::plan;

namespace {

std::string message(const Status& status) {
  return status.ok() ? "ok" : status.error().code + " " + status.error().message;
}

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// `count` numbers from `first` on.
TensorToWrite tensor(const std::string& name, int64_t count, float first) {
  TensorToWrite result{name, DType::kF32, {count}, {}, 4 * count};
  result.produce = [count, first](const auto& write) -> Status {
    for (int64_t i = 0; i < count; ++i) {
      const float value = first + static_cast<float>(i);
      PIPER_RETURN_IF_ERROR(write(&value, 4));
    }
    return {};
  };
  return result;
}

// For 16, 8, 40 and 8 bytes.
std::vector<TensorToWrite> four() {
  return {tensor("a", 4, 0), tensor("b", 2, 10), tensor("c", 10, 20), tensor("d", 2, 40)};
}

float first_of(const WeightFiles& weights, const std::string& name) {
  const TensorView* const view = weights.find(name);
  REQUIRE(view != nullptr);
  float value = 0;
  std::memcpy(&value, view->data, 4);
  return value;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string refused(const std::string& path) { return message(WeightFiles::open(path).status()); }

}  // namespace

// A file takes tensors in order until the next would be too much; one that is larger than a file has its own.
TEST_CASE("weights are cut into files and an index") {
  const TempFolder folder;
  const std::string out = folder / "new/out";
  const auto files = write_weight_files(out, four(), 24);
  REQUIRE(message(files.status()) == "ok");
  CHECK(*files == 3);
  CHECK(names_in(out) == std::vector<std::string>{"model-00001-of-00003.safetensors",
                                                  "model-00002-of-00003.safetensors",
                                                  "model-00003-of-00003.safetensors", "model.safetensors.index.json"});
  CHECK(slurp(out + "/model.safetensors.index.json") == R"({
  "metadata": {
    "total_size": 72
  },
  "weight_map": {
    "a": "model-00001-of-00003.safetensors",
    "b": "model-00001-of-00003.safetensors",
    "c": "model-00002-of-00003.safetensors",
    "d": "model-00003-of-00003.safetensors"
  }
}
)");
  CHECK(slurp(out + "/model-00003-of-00003.safetensors").substr(8, 36) == R"({"__metadata__":{"format":"pt"},"d":)");
  for (const std::string& path : {out, out + "/model.safetensors.index.json"}) {
    const auto read = WeightFiles::open(path);
    REQUIRE(message(read.status()) == "ok");
    CHECK(first_of(*read, "a") == 0);
    CHECK(first_of(*read, "b") == 10);
    CHECK(first_of(*read, "c") == 20);
    CHECK(first_of(*read, "d") == 40);
    CHECK(read->find("e") == nullptr);
  }
  CHECK(message(write_weight_files(out, four(), 1000).status()) ==
        "P0621 cannot write " + out + ": it holds weights already: " + names_in(out)[0]);
}

// What fits into one file needs no index; beside it may be other things of the model.
TEST_CASE("weights that fit into one file have no index") {
  const TempFolder folder;
  folder.write("config.json", "{}");
  const std::string out = folder.path();
  REQUIRE(write_weight_files(out, four(), 72).ok());
  CHECK(names_in(out) == std::vector<std::string>{"config.json", "model.safetensors"});
  for (const std::string& path : {out, out + "/model.safetensors"}) {
    const auto read = WeightFiles::open(path);
    REQUIRE(message(read.status()) == "ok");
    CHECK(first_of(*read, "d") == 40);
  }
}

TEST_CASE("metadata of a file are read as they were written, and those of PyTorch come first") {
  const TempFolder folder;
  const std::string path = folder / "w.safetensors";
  REQUIRE(write_safetensors(path, {tensor("a", 1, 0)}, {{"step", "3"}, {"eval_loss", "0.5"}}).ok());
  CHECK(slurp(path).substr(8, 61) == R"({"__metadata__":{"format":"pt","eval_loss":"0.5","step":"3"},)");
  const auto read = SafetensorsFile::open(path);
  REQUIRE(message(read.status()) == "ok");
  CHECK(read->metadata() == std::map<std::string, std::string>{{"eval_loss", "0.5"}, {"format", "pt"}, {"step", "3"}});
}

TEST_CASE("an index that does not fit its files is refused") {
  const TempFolder folder;
  const std::string out = folder.path(), index = out + "/model.safetensors.index.json";
  CHECK(refused(out) ==
        "P0603 cannot read " + out + ": the folder holds neither model.safetensors.index.json nor model.safetensors");
  REQUIRE(write_weight_files(out, four(), 24).ok());
  const std::string text = slurp(index), first = out + "/model-00001-of-00003.safetensors",
                    second = out + "/model-00002-of-00003.safetensors";

  SECTION("a file is missing") {
    fs::remove(second);
    CHECK(refused(out) == "P0622 " + index + ": tensor \"c\" is in a file that cannot be read: cannot read " + second +
                              ": No such file or directory");
  }
  SECTION("a file is cut") {
    fs::resize_file(second, fs::file_size(second) - 1);
    CHECK(refused(out) ==
          "P0620 " + second + ": not a safetensors file, or damaged: tensor \"c\": data_offsets lie outside the file");
  }
  SECTION("two files are exchanged") {
    fs::rename(first, out + "/other");
    fs::rename(second, first);
    fs::rename(out + "/other", second);
    CHECK(refused(out) == "P0622 " + index +
                              ": \"model-00001-of-00003.safetensors\" does not hold tensor \"a\": it is not the file "
                              "that the index is about");
  }
  SECTION("the index leads out of its folder") {
    for (const std::string& name : std::vector<std::string>{"../model.safetensors", "/etc/passwd", "..", ""}) {
      folder.write("model.safetensors.index.json", R"({"weight_map": {"a": ")" + name + R"("}})");
      CHECK(refused(out) ==
            "P0622 " + index + ": the file of tensor \"a\" is not the name of a file next to the index");
    }
  }
  SECTION("the index is something else") {
    for (const std::string& other :
         std::vector<std::string>{"", "{", "[]", "{}", R"({"weight_map": []})", text.substr(0, 80)}) {
      folder.write("model.safetensors.index.json", other);
      CHECK(refused(out) ==
            "P0622 " + index + ": not an index of weights: it needs \"weight_map\", an object from tensors to files");
    }
  }
}
