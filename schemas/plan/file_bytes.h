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

struct evp_md_ctx_st;  // of OpenSSL

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

// A digest of large bytes sees `count` blocks of `bytes` at equal distances, at least two; that of others sees all.
struct Blocks {
  size_t bytes = 0, count = 0;
};
std::string sha256_of_blocks(std::string_view bytes, Blocks blocks);
// To find out whether ranks have copies of one file, at the cost of a few reads. Damage between the blocks is not seen.
inline constexpr Blocks kQuickBlocks{4096, 4};

// The same of bytes that come piece by piece.
class Sha256 {
 public:
  Sha256();
  void add(std::string_view bytes);
  std::string finish();  // once

 private:
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context_;
};

}  // namespace piper::plan
