// Digests of the pieces of a weights file, one a MiB, in the manifest: whoever loads a part of a model checks the
// pieces it reads and no other, so that a rank whose machine has another copy of the file says so. CRC32C: a quarter of
// what a truncated SHA-256 of the same strength against accidents would add to the manifest, and faster than memory,
// where a second SHA-256 would double piperc's. It is no seal: that is the SHA-256 of the file, which the manifest has
// as well.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/base/status.h"
#include "schemas/plan/file_bytes.h"
#include "schemas/plan/plan.h"

namespace piper::plan {

inline constexpr int64_t kChunkBytes = int64_t{1} << 20;

uint32_t crc32c(std::string_view bytes);
uint32_t crc32c_by_tables(std::string_view bytes);  // the same where the processor has no instruction for it
// Of each MiB of a file; the last may be shorter.
std::vector<uint32_t> chunk_digests(std::string_view bytes);
constexpr int64_t chunk_count(int64_t bytes) { return bytes / kChunkBytes + (bytes % kChunkBytes == 0 ? 0 : 1); }

// A weights file of a bundle. Shared by the ranks of a process: no chunk is read twice.
class ChunkedFile {
 public:
  // P0603, or P0604 where it has another size than the manifest says. `entry` has the digests of so many bytes.
  static Result<std::shared_ptr<ChunkedFile>> open(const std::string& directory, const FileEntry& entry);
  const MappedFile& file() const { return file_; }
  const std::string& path() const { return path_; }
  bool holds(const std::byte* data) const { return data >= file_.data && data < file_.data + file_.bytes; }
  // Before these bytes of the file are used: reads and checks the chunks that hold them. Thread-safe. P0604.
  Status check(const std::byte* data, int64_t bytes) const;

 private:
  struct Chunk {
    std::once_flag read;
    bool good = false;
  };
  std::string path_;
  MappedFile file_;
  std::vector<uint32_t> digests_;
  std::unique_ptr<Chunk[]> chunks_;
};

}  // namespace piper::plan
