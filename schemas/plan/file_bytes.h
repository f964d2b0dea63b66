// Whole files: mapped for reading, written for good. Used by the bundle's reader and writer, the
// safetensors adapter and whoever digests a file. Errors: P0602 (cannot be written), P0603 (cannot
// be read), with the system's reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "schemas/base/status.h"

namespace piper::plan {

inline std::string_view text_of(const std::byte* data, int64_t bytes) {
  return {reinterpret_cast<const char*>(data), static_cast<size_t>(bytes)};
}

struct MappedFile {
  std::shared_ptr<void> mapping;  // shared: views into the file keep it alive; null for an empty file
  const std::byte* data = nullptr;
  int64_t bytes = 0;
  std::string_view text() const { return text_of(data, bytes); }
};

// Regular files only. mapped_name() knows its addresses.
Result<MappedFile> map_file(const std::string& path);
Status write_file(const std::string& path, std::string_view text);

// SHA-256 in lower-case hexadecimal.
std::string sha256(std::string_view bytes);

}  // namespace piper::plan
