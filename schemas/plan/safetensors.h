// The safetensors format: 8-byte little-endian header length, JSON header, data. Reader by mmap,
// writer streaming. Errors P0620 (not a safetensors file, or damaged), P0621 (cannot be written).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "schemas/base/status.h"
#include "schemas/plan/dtype.h"
#include "schemas/plan/file_bytes.h"

namespace piper::plan {

struct TensorView {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  const std::byte* data = nullptr;
  int64_t bytes = 0;
};

class SafetensorsFile {  // keeps the mapping alive
 public:
  static Result<SafetensorsFile> open(const std::string& path);
  // `check` is asked for the header's bytes before they are used; those of the tensors are the caller's to check.
  using Check = std::function<Status(const std::byte* data, int64_t bytes)>;
  static Result<SafetensorsFile> open(const MappedFile& file, const std::string& path, const Check& check);
  const std::map<std::string, TensorView>& tensors() const { return tensors_; }
  const TensorView* find(const std::string& name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  std::shared_ptr<void> mapping_;  // shared: views handed out keep it through the file object
  std::map<std::string, std::string> metadata_;
  std::map<std::string, TensorView> tensors_;
};

struct TensorToWrite {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  // Called once, in order, to write exactly `bytes` bytes.
  std::function<Status(const std::function<Status(const void*, int64_t)>& write)> produce;
  int64_t bytes = 0;
};
// What is before the tensors' bytes: the header's length and the header. `produce` is not called.
std::string safetensors_header(const std::vector<TensorToWrite>& tensors);
// Tensors in the given order; metadata after {"format": "pt"}, which is for other programs. Written beside and renamed,
// both for good: a power cut leaves the old file or the new one.
Status write_safetensors(const std::string& path, const std::vector<TensorToWrite>& tensors,
                         const std::map<std::string, std::string>& metadata = {});
// The tensors straight to `path`, and on the disk some time later: for a directory that is not in its place yet.
Status stream_safetensors(const std::string& path, const std::vector<TensorToWrite>& tensors);

}  // namespace piper::plan
