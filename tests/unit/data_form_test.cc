// What files are taken for: by their content, whatever they are called. What is no data is refused with the
// command that makes data of it.
#include <catch2/catch.hpp>

#include <cstring>

#include "runtime/data/data_digest.h"
#include "runtime/data/data_form.h"
#include "runtime/data/data_source.h"
#include "schemas/plan/safetensors.h"
#include "tests/unit/temp_folder.h"

namespace piper::data {
namespace {

using namespace std::string_literals;

template <class T>
std::string raw(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

std::string npy(const std::string& descr, const std::string& shape, const std::string& data) {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.resize(118, ' ');
  header.back() = '\n';
  return "\x93NUMPY\x01\x00\x76\x00"s + header + data;
}

// Megatron's index of sequences that are one after the other.
std::string index(uint8_t type, int64_t bytes_of_token, const std::vector<int32_t>& lengths) {
  std::string text = "MMIDIDX\x00\x00"s + raw<uint64_t>({1}) + static_cast<char>(type) +
                     raw<uint64_t>({lengths.size(), lengths.size() + 1}) + raw(lengths);
  int64_t offset = 0;
  for (const int32_t length : lengths) {
    text += raw<int64_t>({offset});
    offset += length * bytes_of_token;
  }
  for (size_t i = 0; i <= lengths.size(); ++i) text += raw<int64_t>({static_cast<int64_t>(i)});
  return text;
}

std::string zip_of(const std::string& entry) {
  return "PK\x03\x04"s + std::string(22, '\0') + static_cast<char>(entry.size()) + std::string(3, '\0') + entry +
         "data";
}

plan::Manifest model(int64_t length) {
  plan::Manifest manifest;
  manifest.batch = 1;
  for (const auto feed : {plan::Feed::kTokens, plan::Feed::kNextTokens}) {
    plan::InputDecl input;
    input.name = feed == plan::Feed::kTokens ? "input_ids" : "labels";
    input.dtype = DType::kI64;
    input.sample_shape = {length};
    input.feed = feed;
    manifest.inputs.push_back(input);
  }
  return manifest;
}

DataOptions options_of(const std::string& path, const std::string& dtype = "") {
  DataOptions options;
  options.path = path;
  options.token_dtype = dtype;
  options.sampling = Sampling::kSequential;
  return options;
}

std::vector<int64_t> first_sample(const DataOptions& options) {
  const auto source = DataSource::open(options, model(3));
  INFO((source.ok() ? "" : source.error().message));
  REQUIRE(source.ok());
  std::vector<int64_t> tokens(3);
  (*source)->fill(0, 1, 0, 1, reinterpret_cast<std::byte*>(tokens.data()));
  return tokens;
}

std::string refusal(const DataOptions& options) {
  const auto source = DataSource::open(options, model(3));
  return source.ok() ? "" : source.error().code + " " + source.error().message;
}

TEST_CASE("tokens are read in the type that the index or the header names") {
  const std::vector<int64_t> tokens = {1, 70000, 3};
  TempFolder folder;
  // int32 of Megatron: read as u16 these would be 1, 0, 4464.
  const std::string megatron = folder.write("m.bin", raw<int32_t>({1, 70000, 3, 4, 5}));
  folder.write("m.idx", index(4, 4, {2, 3}));
  CHECK(first_sample(options_of(megatron)) == tokens);
  CHECK(first_sample(options_of(folder / "m.idx")) == tokens);
  CHECK(first_sample(options_of(megatron, "i32")) == tokens);
  CHECK(refusal(options_of(megatron, "u16")) ==
        "R0206 '" + folder / "m.idx" + "' says that it holds i32 tokens, --token-dtype says u16");
  CHECK(first_sample(options_of(folder.write("n.npy", npy("<i8", "(4,)", raw<int64_t>({1, 70000, 3, 4}))))) == tokens);
  CHECK(first_sample(options_of(folder.write("n", npy("<u4", "(4,)", raw<uint32_t>({1, 70000, 3, 4}))))) == tokens);
  CHECK(first_sample(options_of(folder.write("i.bin", raw<int32_t>({1, 70000, 3, 4})), "i32")) == tokens);
  CHECK(refusal(options_of(folder.write("f.npy", npy("<f4", "(4,)", raw<float>({1, 2, 3, 4}))))).find("R0206") == 0);
  CHECK(refusal(options_of(folder.write("t.npy", npy("<i8", "(2, 2)", raw<int64_t>({1, 2, 3, 4}))))).find("NAME.npy") !=
        std::string::npos);
}

TEST_CASE("a folder of Megatron's files is its tokens") {
  TempFolder folder;
  folder.write("a.bin", raw<uint16_t>({1, 2, 3, 4, 5, 6, 7}));
  folder.write("a.idx", index(8, 2, {7}));
  folder.write("b.bin", raw<uint16_t>({8, 9, 10, 11}));
  folder.write("b.idx", index(8, 2, {4}));
  const auto source = DataSource::open(options_of(folder.path().string()), model(3));
  INFO((source.ok() ? "" : source.error().message));
  REQUIRE(source.ok());
  CHECK((*source)->num_samples() == 3);
  folder.write("c.idx", index(8, 2, {4}));  // whose tokens are missing
  CHECK(refusal(options_of(folder.path().string())).find("there is no '" + folder / "c.bin") != std::string::npos);
}

TEST_CASE("an index that does not fit its tokens is refused") {
  TempFolder folder;
  const std::string tokens = folder.write("m.bin", raw<int32_t>({1, 2, 3, 4, 5}));
  const auto with = [&](const std::string& text) {
    folder.write("m.idx", text);
    return refusal(options_of(tokens));
  };
  CHECK(with(index(4, 4, {2, 2})).find("R0213") == 0);
  CHECK(with(index(8, 2, {2, 3})).find("R0213") == 0);
  CHECK(with(index(7, 4, {2, 3})).find("its type 7 is none of tokens") != std::string::npos);
  CHECK(with(index(4, 8, {2, 3})).find("do not lie one after the other") != std::string::npos);
  CHECK(with(index(4, 4, {2, 3}).substr(0, 40)).find("cut off") != std::string::npos);
  CHECK(with("other").find("does not begin as one") != std::string::npos);
  CHECK(with(index(4, 4, {2, 3})) == "");
  const std::string lonely = folder.write("l.idx", index(4, 4, {5}));
  CHECK(refusal(options_of(lonely)).find("there is no '" + folder / "l.bin") != std::string::npos);
}

TEST_CASE("safetensors are tensors whatever their name") {
  TempFolder folder;
  std::vector<plan::TensorToWrite> tensors;
  for (const char* name : {"input_ids", "labels"}) {
    plan::TensorToWrite tensor{name, DType::kI64, {1, 3}, {}, 24};
    tensor.produce = [](const auto& write) {
      const int64_t values[] = {7, 8, 9};
      return write(reinterpret_cast<const char*>(values), 24);
    };
    tensors.push_back(tensor);
  }
  for (const char* name : {"d.safetensors", "d.bin", "d.txt", "d"}) {
    REQUIRE(plan::write_safetensors(folder / name, tensors).ok());
    CHECK(first_sample(options_of(folder / name)) == std::vector<int64_t>{7, 8, 9});
  }
}

TEST_CASE("what is no data is refused with the command that makes data of it") {
  TempFolder folder;
  struct Case {
    const char* name;
    std::string bytes, words;
  };
  const std::string tokens = "python tools/piper_tokens.py ", json = R"({"text": "one"})"
                                                                     "\n"
                                                                     R"({"text": "two"})";
  const Case cases[] = {
      {"c.jsonl", json, tokens},
      {"c.txt", json, tokens},
      {"c.json", " [\n {\"text\" : \"one\"}]", tokens},
      {"c", "\xef\xbb\xbf" + json, tokens},
      {"c.parquet", "PAR1xxxxPAR1", "pandas.read_parquet("},
      {"c.bin", "PAR1xxxxPAR1", "pandas.read_parquet("},
      {"c.arrow", "ARROW1\0\0xxxx"s, "pandas.read_feather("},
      {"s.arrow", "\xff\xff\xff\xff\x10\0\0\0xxxx"s, "datasets.Dataset.from_file("},
      {"m.pt2", zip_of("m/archive_format"), "piperc "},
      {"old.pt2", zip_of("serialized_exported_program.json"), "piperc "},
      {"renamed.txt", zip_of("m/models/model.json"), "piperc "},
      {"t.pt", zip_of("t/data.pkl"), "torch.load("},
      {"pytorch_model.bin", zip_of("archive/data.pkl"), "torch.load("},
      {"t.npz", zip_of("x.npy"), "numpy.load("},
      {"z.zip", zip_of("a.txt"), "unzip "},
      {"o.pt", "\x80\x02\x8a\x0al\xfc"s, "torch.load("},
      {"c.txt.gz", "\x1f\x8b\x08\0"s, "gunzip -k "},
      {"c.zst", "\x28\xb5\x2f\xfdxx", "zstd -d "},
      {"h.h5", "\x89HDF\r\n\x1a\nxx", "h5py.File("},
      {"w.gguf", "GGUF\3\0\0\0"s, "weights"},
      {"u.txt", "\xff\xfe"s + "a\0b\0"s, "iconv "},
      {"noise.dat", "ab\0cd efgh"s, "--token-dtype"},
  };
  for (const Case& c : cases) {
    const std::string path = folder.write(c.name, c.bytes), said = refusal(options_of(path));
    INFO(c.name << ": " << said);
    CHECK(said.find("R0213 '" + path + "' is") == 0);
    CHECK(said.find(c.words) != std::string::npos);
    CHECK_FALSE(data_digest(options_of(path)).ok());
  }
}

TEST_CASE("text is text, whatever its name and language") {
  TempFolder folder;
  for (const std::string& text : {"plain"s, "{ not json, a brace"s, "[1] a footnote"s, "d\xc3\xa9j\xc3\xa0 vu\n"s,
                                  "caf\xe9 au lait"s, "#include <x>\n\tint a[] = {1};\f\n"s, "\x1b[1mbold\x1b[0m"s}) {
    const std::string path = folder.write("readme.md", text);
    INFO(text);
    CHECK(first_sample(options_of(path))[0] == static_cast<unsigned char>(text[0]));
  }
  // What somebody says to be raw is raw: a mark of two bytes is chance.
  CHECK(first_sample(options_of(folder.write("r.dat", raw<uint16_t>({0x8b1f, 2, 3, 4})), "u16")) ==
        std::vector<int64_t>{0x8b1f, 2, 3});
  CHECK(first_sample(options_of(folder.write("r.bin", raw<uint16_t>({0xffff, 0xffff, 3, 4})))) ==
        std::vector<int64_t>{0xffff, 0xffff, 3});
}

// The digest is of tokens: one set of them in another container is no other data set.
TEST_CASE("a data set's digest does not see the container of tokens") {
  TempFolder folder;
  const std::string bytes = raw<int32_t>({1, 2, 3, 4});
  const std::string plain = folder.write("r.bin", bytes), array = folder.write("n.npy", npy("<i4", "(4,)", bytes)),
                    indexed = folder.write("m.bin", bytes);
  folder.write("m.idx", index(4, 4, {4}));
  const auto digest = data_digest(options_of(plain, "i32"));
  REQUIRE(digest.ok());
  for (const std::string& path : {array, indexed, folder / "m.idx"}) {
    const auto other = data_digest(options_of(path));
    REQUIRE(other.ok());
    CHECK(*other == *digest);
  }
}

}  // namespace
}  // namespace piper::data
