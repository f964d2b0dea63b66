#include "schemas/plan/chunk_digests.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "schemas/plan/names.h"

#ifdef __x86_64__
#include <nmmintrin.h>
#endif

namespace piper::plan {
namespace {

using Tables = std::array<std::array<uint32_t, 256>, 8>;

// tables[k][b]: the remainder of byte b with k zero bytes after it.
constexpr Tables make_tables() {
  constexpr uint32_t kPolynomial = 0x82f63b78;  // Castagnoli's, lowest bit first
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = rest >> 1 ^ (rest % 2 == 1 ? kPolynomial : 0);
    tables[0][byte] = rest;
  }
  for (size_t k = 1; k < 8; ++k)
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[k - 1][byte];
      tables[k][byte] = before >> 8 ^ tables[0][before & 255];
    }
  return tables;
}
constexpr Tables kTables = make_tables();

#ifdef __x86_64__
__attribute__((target("sse4.2"))) uint32_t by_instruction(std::string_view bytes) {
  uint64_t rest = 0xffffffff;
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, 8);
    rest = _mm_crc32_u64(rest, word);
  }
  auto last = static_cast<uint32_t>(rest);
  for (; at < bytes.size(); ++at) last = _mm_crc32_u8(last, static_cast<unsigned char>(bytes[at]));
  return ~last;
}
#endif

std::string damaged(const std::string& path, const std::string& why) {
  return path + ": damaged or changed by hand: " + why;
}

}  // namespace

uint32_t crc32c_by_tables(std::string_view bytes) {
  uint32_t rest = 0xffffffff;
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, 8);
    word ^= rest;
    rest = 0;
    for (size_t k = 0; k < 8; ++k) rest ^= kTables[7 - k][word >> (8 * k) & 255];
  }
  for (; at < bytes.size(); ++at) rest = rest >> 8 ^ kTables[0][(rest ^ static_cast<unsigned char>(bytes[at])) & 255];
  return ~rest;
}

uint32_t crc32c(std::string_view bytes) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("sse4.2")) return by_instruction(bytes);
#endif
  return crc32c_by_tables(bytes);
}

std::vector<uint32_t> chunk_digests(std::string_view bytes) {
  std::vector<uint32_t> digests;
  for (; !bytes.empty(); bytes.remove_prefix(std::min<size_t>(bytes.size(), kChunkBytes)))
    digests.push_back(crc32c(bytes.substr(0, kChunkBytes)));
  return digests;
}

Result<std::shared_ptr<ChunkedFile>> ChunkedFile::open(const std::string& directory, const FileEntry& entry) {
  auto chunked = std::make_shared<ChunkedFile>();
  chunked->path_ = directory + "/" + entry.path;
  PIPER_ASSIGN(chunked->file_, map_file(chunked->path_));
  if (chunked->file_.bytes != entry.bytes)
    return Status::failure("P0604",
                           damaged(chunked->path_, std::to_string(chunked->file_.bytes) + " bytes, the manifest says " +
                                                       std::to_string(entry.bytes)));
  chunked->digests_ = entry.chunks;
  chunked->chunks_ = std::make_unique<Chunk[]>(entry.chunks.size());
  return chunked;
}

Status ChunkedFile::check(const std::byte* data, int64_t bytes) const {
  if (bytes == 0) return {};
  const int64_t begin = data - file_.data;
  PIPER_CHECK(range_inside(begin, bytes, file_.bytes), path_, ": ", bytes, " bytes at ", begin);
  for (int64_t i = begin / kChunkBytes; i <= (begin + bytes - 1) / kChunkBytes; ++i) {
    const auto index = static_cast<size_t>(i);
    const auto text = file_.text().substr(index * kChunkBytes, kChunkBytes);
    Chunk& chunk = chunks_[index];
    std::call_once(chunk.read, [&] { chunk.good = crc32c(text) == digests_[index]; });
    if (!chunk.good)
      return Status::failure(
          "P0604", damaged(path_, "the " + std::to_string(text.size()) + " bytes from " +
                                      std::to_string(i * kChunkBytes) + " on differ from the manifest (CRC32C)"));
  }
  return {};
}

}  // namespace piper::plan
