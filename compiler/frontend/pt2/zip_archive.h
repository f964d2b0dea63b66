// A zip archive on disk: its directory, and entries read by name. Stored and deflated entries, also
// beyond 4 GiB (zip64). Used by the readers of `.pt2` archives; it knows nothing of their contents. Every length
// and offset is checked against the file, and every entry that is read against its CRC. All failures are P0301.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "schemas/base/status.h"

namespace piper::frontend::pt2 {

struct ZipEntry {
  uint16_t method = 0;  // 0 stored, 8 deflated
  uint32_t crc = 0;
  int64_t packed_bytes = 0, bytes = 0;
  int64_t header_offset = 0;  // of the local header
  int64_t data_offset = 0;    // of the first packed byte in the file
};

class ZipArchive {
 public:
  // Error P0301: no file, no zip archive, or a damaged directory.
  static Result<ZipArchive> open(const std::string& path);

  const std::string& path() const { return path_; }
  const std::map<std::string, ZipEntry>& entries() const { return entries_; }
  // Null where there is no such entry.
  const ZipEntry* find(const std::string& name) const;
  // The unpacked bytes. P0301: no such entry, a method that piper does not read, bytes cut off or damaged.
  Result<std::vector<std::byte>> read(const std::string& name) const;
  // Reads a stored entry block by block and compares its CRC, keeping nothing.
  Status check(const std::string& name) const;

 private:
  std::string path_;
  std::map<std::string, ZipEntry> entries_;
};

}  // namespace piper::frontend::pt2
