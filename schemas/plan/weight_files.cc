#include "schemas/plan/weight_files.h"

#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "schemas/plan/durable_files.h"
#include "schemas/plan/file_bytes.h"

namespace piper::plan {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr int64_t kMaxIndexBytes = 100'000'000;

// The index must not lead out of its folder.
bool is_file_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

Status cannot_write(const std::string& path, const std::string& why) {
  return Status::failure("P0621", "cannot write " + path + ": " + why);
}

// "model-00002-of-00003.safetensors".
std::string numbered(size_t index, size_t count) {
  char name[80];
  std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", index + 1, count);
  return name;
}

std::vector<std::vector<TensorToWrite>> cut_into_files(const std::vector<TensorToWrite>& tensors, int64_t max_bytes) {
  std::vector<std::vector<TensorToWrite>> files(1);
  int64_t bytes = 0;
  for (const TensorToWrite& tensor : tensors) {
    if (!files.back().empty() && tensor.bytes > max_bytes - bytes) {
      files.emplace_back();
      bytes = 0;
    }
    bytes += tensor.bytes;
    files.back().push_back(tensor);
  }
  return files;
}

std::string index_text(const std::vector<std::vector<TensorToWrite>>& files) {
  Json index = {{"metadata", {{"total_size", 0}}}, {"weight_map", Json::object()}};
  int64_t total = 0;
  for (size_t i = 0; i < files.size(); ++i)
    for (const TensorToWrite& tensor : files[i]) {
      index["weight_map"][tensor.name] = numbered(i, files.size());
      total += tensor.bytes;
    }
  index["metadata"]["total_size"] = total;
  return index.dump(2) + "\n";
}

// Whole and on the disk before it has its name.
Status write_index(const std::string& path, const std::string& text) {
  const std::string partial = path + ".partial-" + std::to_string(::getpid());
  Status status = write_file(partial, text);
  std::error_code error;
  if (status.ok()) {
    const int fd = ::open(partial.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0 || ::fsync(fd) != 0) status = cannot_write(path, std::strerror(errno));
    if (fd >= 0) ::close(fd);
  }
  if (status.ok()) {
    error = put_file(partial, path);
    if (error) status = cannot_write(path, error.message());
  }
  if (!status.ok()) fs::remove(partial, error);
  return status;
}

// New files beside old ones of another number would leave a folder that no index describes.
Status check_holds_no_weights(const std::string& directory) {
  std::error_code error;
  std::string found;  // the first by name, since folders have no order
  for (auto at = fs::directory_iterator(directory, error); !error && at != fs::directory_iterator();
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    const bool weights = name == kWeightIndex || (name.starts_with("model") && name.ends_with(".safetensors"));
    if (weights && (found.empty() || name < found)) found = name;
  }
  if (!found.empty()) return cannot_write(directory, "it holds weights already: " + found);
  return error ? cannot_write(directory, error.message()) : Status();
}

}  // namespace

Result<WeightFiles> WeightFiles::open(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    for (const std::string_view name : {kWeightIndex, kWholeWeights})
      if (const std::string inside = path + "/" + std::string(name); fs::exists(inside, error)) return open(inside);
    return Status::failure("P0603", "cannot read " + path + ": the folder holds neither " + std::string(kWeightIndex) +
                                        " nor " + std::string(kWholeWeights));
  }
  if (path.ends_with(".json")) return open_index(path);
  PIPER_ASSIGN(SafetensorsFile file, SafetensorsFile::open(path));
  return WeightFiles(std::move(file));
}

Result<WeightFiles> WeightFiles::open_index(const std::string& path) {
  const auto bad = [&path](const std::string& why) { return Status::failure("P0622", path + ": " + why); };
  PIPER_ASSIGN(const MappedFile mapped, map_file(path));
  if (mapped.bytes > kMaxIndexBytes) return bad("too large for an index of weights");
  const auto text = mapped.text();
  const Json json = Json::parse(text.begin(), text.end(), nullptr, false);
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
    return bad("not an index of weights: it needs \"weight_map\", an object from tensors to files");
  const std::string folder = fs::path(path).parent_path().string();
  WeightFiles weights;
  std::map<std::string, size_t> opened;
  for (const auto& [tensor, entry] : json["weight_map"].items()) {
    if (!entry.is_string() || !is_file_name(entry.get_ref<const std::string&>()))
      return bad("the file of tensor \"" + tensor + "\" is not the name of a file next to the index");
    const auto& name = entry.get_ref<const std::string&>();
    const auto [at, is_new] = opened.emplace(name, weights.files_.size());
    if (is_new) {
      const std::string beside = folder.empty() ? name : folder + "/" + name;
      auto file = SafetensorsFile::open(beside);
      if (!file.ok() && file.error().code == "P0603")
        return bad("tensor \"" + tensor + "\" is in a file that cannot be read: " + file.error().message);
      if (!file.ok()) return file.take_status();
      weights.files_.push_back(std::move(*file));
    }
    if (weights.files_[at->second].find(tensor) == nullptr)
      return bad("\"" + name + "\" does not hold tensor \"" + tensor +
                 "\": it is not the file that the index is about");
    weights.file_of_.emplace(tensor, at->second);
  }
  return weights;
}

const TensorView* WeightFiles::find(const std::string& name) const {
  if (files_.size() == 1 && file_of_.empty()) return files_[0].find(name);
  const auto found = file_of_.find(name);
  return found == file_of_.end() ? nullptr : files_[found->second].find(name);
}

std::vector<std::string> WeightFiles::names() const {
  std::vector<std::string> names;
  if (files_.size() == 1 && file_of_.empty())
    for (const auto& [name, tensor] : files_[0].tensors()) names.push_back(name);
  for (const auto& [name, file] : file_of_) names.push_back(name);
  return names;
}

Result<int64_t> write_weight_files(const std::string& directory, const std::vector<TensorToWrite>& tensors,
                                   int64_t max_file_bytes) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return cannot_write(directory, error.message());
  PIPER_RETURN_IF_ERROR(check_holds_no_weights(directory));
  const auto files = cut_into_files(tensors, max_file_bytes);
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string name = files.size() == 1 ? std::string(kWholeWeights) : numbered(i, files.size());
    PIPER_RETURN_IF_ERROR(write_safetensors(directory + "/" + name, files[i]));
  }
  if (files.size() > 1)
    PIPER_RETURN_IF_ERROR(write_index(directory + "/" + std::string(kWeightIndex), index_text(files)));
  return static_cast<int64_t>(files.size());
}

}  // namespace piper::plan
