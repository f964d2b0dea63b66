// Writes small zip archives for tests: entries stored or deflated, with the damage that a test asks for.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace piper::test {

struct ZipItem {
  std::string name, bytes;
  bool deflate = false;
};

inline void append_number(std::string& out, uint64_t v, int width) {
  for (int i = 0; i < width; ++i) out += static_cast<char>(v >> (8 * i) & 0xff);
}

inline std::string deflated(const std::string& bytes) {
  z_stream z{};
  deflateInit2(&z, Z_BEST_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&z, bytes.size()) + 16, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  z.avail_in = static_cast<uInt>(bytes.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

inline std::string zip_bytes(const std::vector<ZipItem>& items) {
  std::string out, directory;
  for (const ZipItem& item : items) {
    const std::string packed = item.deflate ? deflated(item.bytes) : item.bytes;
    const uint64_t at = out.size(), crc = crc32(0, reinterpret_cast<const Bytef*>(item.bytes.data()),
                                                static_cast<uInt>(item.bytes.size()));
    std::string common;  // version to flags, method, time, crc, sizes, length of the name, no extra field
    append_number(common, 20, 2);
    append_number(common, 0, 2);
    append_number(common, item.deflate ? 8 : 0, 2);
    append_number(common, 0, 4);
    append_number(common, crc, 4);
    append_number(common, packed.size(), 4);
    append_number(common, item.bytes.size(), 4);
    append_number(common, item.name.size(), 2);
    append_number(common, 0, 2);
    append_number(out, 0x04034b50, 4);
    out += common + item.name + packed;
    append_number(directory, 0x02014b50, 4);
    append_number(directory, 20, 2);
    directory += common;
    append_number(directory, 0, 2 + 2 + 2 + 4);
    append_number(directory, at, 4);
    directory += item.name;
  }
  const uint64_t start = out.size();
  out += directory;
  append_number(out, 0x06054b50, 4);
  append_number(out, 0, 4);
  append_number(out, items.size(), 2);
  append_number(out, items.size(), 2);
  append_number(out, directory.size(), 4);
  append_number(out, start, 4);
  append_number(out, 0, 2);
  return out;
}

inline void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace piper::test
