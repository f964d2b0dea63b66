// One checkpoint, read: any range of any of its tensors, wherever the ranks that wrote it had it. Files are mapped, so
// that only what is wanted is read; every MiB is checked against its digest before a byte of it is used.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "schemas/checkpoint/manifest.h"
#include "schemas/plan/chunk_digests.h"
#include "schemas/plan/safetensors.h"

namespace piper::checkpoint {

class OpenCheckpoint {
 public:
  // `path`: the folder of one step. R0705 with the file and what is wrong with it: the manifest, a file's size or kind,
  // a shard's header, or a shard that does not hold what the manifest says.
  static Result<OpenCheckpoint> open(const std::string& path);

  const Manifest& manifest() const { return manifest_; }
  const std::string& path() const { return path_; }

  // Hands elements [first, first + count) of a tensor of manifest() to `take`, piece by piece in order: `offset` in
  // bytes from `first`. `order`: in which `first` counts and the elements come, whatever that of the checkpoint is.
  // R0705, naming file and tensor; failures of `take`. Thread-safe.
  using Take = std::function<Status(int64_t offset, const std::byte* data, int64_t bytes)>;
  Status read(const StoredTensor& tensor, const plan::ElementOrder& order, int64_t first, int64_t count,
              const Take& take) const;

  // Every MiB of every file. `seals`: the SHA-256 of the files as well. R0705, naming a file and a tensor that lies in
  // the damaged place.
  Status check_all(bool seals) const;
  // Part `part` of `parts` equal ones of these MiB: several processes share the work, also where it is one file.
  Status check_part(size_t part, size_t parts) const;

 private:
  Status read_stored(const StoredTensor& tensor, int64_t first, int64_t count, const Take& take) const;
  std::string tensor_at(size_t file, const std::byte* place) const;

  std::string path_;
  Manifest manifest_;
  std::vector<std::shared_ptr<const plan::ChunkedFile>> files_;  // by file of the manifest
  std::vector<plan::SafetensorsFile> shards_;
};

}  // namespace piper::checkpoint
