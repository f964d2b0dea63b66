#include "compiler/frontend/pt2/zip_archive.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <fstream>

// Layout of the records: PKWARE, APPNOTE.TXT, section 4.3.
namespace piper::frontend::pt2 {
namespace {

constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50,
                   kLocator64 = 0x07064b50;
constexpr int64_t kEndBytes = 22, kLongestComment = 65535, kMostDirectoryBytes = int64_t{1} << 30,
                  kMostUnpacked = int64_t{1} << 36;
constexpr size_t kBlock = size_t{1} << 20;

uint64_t number(const std::string& bytes, size_t at, size_t width) {
  uint64_t v = 0;
  for (size_t i = width; i-- > 0;) v = v << 8 | static_cast<unsigned char>(bytes[at + i]);
  return v;
}
uint32_t u32(const std::string& bytes, size_t at) { return static_cast<uint32_t>(number(bytes, at, 4)); }
uint16_t u16(const std::string& bytes, size_t at) { return static_cast<uint16_t>(number(bytes, at, 2)); }

Status damaged(const std::string& what) {
  return Status::failure("P0301", "the archive is truncated or damaged: " + what);
}

// Random access to the file; every read is checked against its size.
class File {
 public:
  explicit File(const std::string& path) : in_(path, std::ios::binary) {
    in_.seekg(0, std::ios::end);
    size_ = in_ ? static_cast<int64_t>(in_.tellg()) : -1;
  }
  int64_t size() const { return size_; }
  Result<std::string> read(int64_t offset, int64_t count, const char* what) {
    if (offset < 0 || count < 0 || offset > size_ || count > size_ - offset)
      return damaged(std::string(what) + " lies outside of the file");
    std::string out(static_cast<size_t>(count), '\0');
    in_.clear();
    in_.seekg(offset);
    in_.read(out.data(), count);
    if (!in_) return damaged(std::string("cannot read ") + what);
    return out;
  }

 private:
  std::ifstream in_;
  int64_t size_ = -1;
};

struct Directory {
  int64_t offset = 0, bytes = 0;
  uint64_t entries = 0;
};

Result<Directory> find_directory(File& file) {
  const int64_t tail = std::min(file.size(), kEndBytes + kLongestComment), start = file.size() - tail;
  PIPER_ASSIGN(const std::string bytes, file.read(start, tail, "the end of the directory"));
  for (int64_t at = tail - kEndBytes; at >= 0; --at) {
    const size_t i = static_cast<size_t>(at);
    if (u32(bytes, i) != kEnd) continue;
    Directory out{static_cast<int64_t>(u32(bytes, i + 16)), static_cast<int64_t>(u32(bytes, i + 12)),
                  u16(bytes, i + 10)};
    if (i >= 20 && u32(bytes, i - 20) == kLocator64) {
      const int64_t end64 = static_cast<int64_t>(number(bytes, i - 20 + 8, 8) & INT64_MAX);
      PIPER_ASSIGN(const std::string record, file.read(end64, 56, "the end of the zip64 directory"));
      if (u32(record, 0) != kEnd64) return damaged("it has no zip64 directory");
      out = {static_cast<int64_t>(number(record, 48, 8) & INT64_MAX),
             static_cast<int64_t>(number(record, 40, 8) & INT64_MAX), number(record, 32, 8)};
    }
    return out;
  }
  return damaged("it has no directory at its end");
}

// Sizes and offset that do not fit into 32 bits are in the extra field 1, in this order.
void read_zip64(const std::string& extra, ZipEntry& entry) {
  for (size_t at = 0; at + 4 <= extra.size();) {
    const uint16_t id = u16(extra, at), length = u16(extra, at + 2);
    size_t value = at + 4;
    const size_t end = std::min(value + length, extra.size());
    if (id == 1)
      for (int64_t* field : {&entry.bytes, &entry.packed_bytes, &entry.header_offset})
        if (*field == UINT32_MAX && value + 8 <= end) {
          *field = static_cast<int64_t>(number(extra, value, 8) & INT64_MAX);
          value += 8;
        }
    at = end;
  }
}

Status unpack(const std::string& packed, std::vector<std::byte>& out) {
  z_stream z{};
  if (inflateInit2(&z, -MAX_WBITS) != Z_OK) return damaged("zlib fails");
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  size_t in_left = packed.size(), out_left = out.size();
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  int rc = Z_OK;
  while (rc == Z_OK) {
    const size_t give = std::min(in_left, kBlock), room = std::min(out_left, kBlock);
    z.avail_in = static_cast<uInt>(give);
    z.avail_out = static_cast<uInt>(room);
    rc = inflate(&z, Z_NO_FLUSH);
    in_left -= give - z.avail_in;
    out_left -= room - z.avail_out;
    if (z.avail_in == give && z.avail_out == room) break;
  }
  inflateEnd(&z);
  if (rc != Z_STREAM_END || out_left != 0) return damaged("a packed entry does not unpack");
  return Status();
}

}  // namespace

Result<ZipArchive> ZipArchive::open(const std::string& path) {
  File file(path);
  if (file.size() < 0) return Status::failure("P0301", "cannot open " + path);
  PIPER_ASSIGN(const Directory directory, find_directory(file));
  if (directory.bytes > kMostDirectoryBytes) return damaged("its directory is too large");
  PIPER_ASSIGN(const std::string bytes, file.read(directory.offset, directory.bytes, "the directory"));
  ZipArchive out;
  out.path_ = path;
  size_t at = 0;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    if (at + 46 > bytes.size() || u32(bytes, at) != kCentral) return damaged("its directory ends early");
    const size_t name_length = u16(bytes, at + 28), extra_length = u16(bytes, at + 30),
                 comment_length = u16(bytes, at + 32);
    if (name_length + extra_length + comment_length > bytes.size() - at - 46)
      return damaged("its directory ends early");
    ZipEntry entry;
    entry.method = u16(bytes, at + 10);
    entry.crc = u32(bytes, at + 16);
    entry.packed_bytes = u32(bytes, at + 20);
    entry.bytes = u32(bytes, at + 24);
    entry.header_offset = u32(bytes, at + 42);
    const std::string name = bytes.substr(at + 46, name_length);
    read_zip64(bytes.substr(at + 46 + name_length, extra_length), entry);
    if ((u16(bytes, at + 8) & 1) != 0) return damaged("the entry '" + name + "' is encrypted");
    PIPER_ASSIGN(const std::string local, file.read(entry.header_offset, 30, "an entry"));
    if (u32(local, 0) != kLocal) return damaged("the entry '" + name + "' has no header");
    entry.data_offset = entry.header_offset + 30 + u16(local, 26) + u16(local, 28);
    if (entry.data_offset > file.size() || entry.packed_bytes > file.size() - entry.data_offset)
      return damaged("the entry '" + name + "' lies outside of the file");
    if (entry.method == 0 && entry.packed_bytes != entry.bytes)
      return damaged("the entry '" + name + "' has two sizes");
    if (!out.entries_.emplace(name, entry).second) return damaged("two entries are named '" + name + "'");
    at += 46 + name_length + extra_length + comment_length;
  }
  return out;
}

const ZipEntry* ZipArchive::find(const std::string& name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &found->second;
}

Result<std::vector<std::byte>> ZipArchive::read(const std::string& name) const {
  const ZipEntry* entry = find(name);
  if (entry == nullptr) return Status::failure("P0301", "the archive has no '" + name + "'");
  if (entry->method != 0 && entry->method != 8)
    return Status::failure("P0301", "'" + name + "' is packed by zip method " + std::to_string(entry->method) +
                                        "; piper reads stored and deflated entries");
  if (entry->bytes > kMostUnpacked || entry->bytes / 1100 > entry->packed_bytes + 1)
    return damaged("the entry '" + name + "' claims an impossible size");
  File file(path_);
  PIPER_ASSIGN(const std::string packed, file.read(entry->data_offset, entry->packed_bytes, "an entry"));
  std::vector<std::byte> out(static_cast<size_t>(entry->bytes));
  if (entry->method == 8) PIPER_RETURN_IF_ERROR(unpack(packed, out));
  else if (!packed.empty()) std::memcpy(out.data(), packed.data(), packed.size());
  if (crc32_z(0, reinterpret_cast<const Bytef*>(out.data()), out.size()) != entry->crc)
    return damaged("the bytes of '" + name + "' are not those that were saved");
  return out;
}

Status ZipArchive::check(const std::string& name) const {
  const ZipEntry* entry = find(name);
  if (entry == nullptr) return Status::failure("P0301", "the archive has no '" + name + "'");
  File file(path_);
  uLong crc = crc32_z(0, nullptr, 0);
  for (int64_t at = 0; at < entry->packed_bytes; at += static_cast<int64_t>(kBlock)) {
    const int64_t count = std::min<int64_t>(static_cast<int64_t>(kBlock), entry->packed_bytes - at);
    PIPER_ASSIGN(const std::string block, file.read(entry->data_offset + at, count, "an entry"));
    crc = crc32_z(crc, reinterpret_cast<const Bytef*>(block.data()), block.size());
  }
  if (entry->method == 0 && crc != entry->crc)
    return damaged("the bytes of '" + name + "' are not those that were saved");
  return Status();
}

}  // namespace piper::frontend::pt2
