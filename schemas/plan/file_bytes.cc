#include "schemas/plan/file_bytes.h"

#include <openssl/evp.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "schemas/plan/mapped_names.h"

namespace piper::plan {
namespace {

Status system_failure(const char* code, const std::string& what, const std::string& path) {
  return Status::failure(code, what + " " + path + ": " + std::strerror(errno));
}

}  // namespace

Result<MappedFile> map_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return system_failure("P0603", "cannot read", path);
  struct stat info{};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    return Status::failure("P0603", "cannot read " + path + ": not a regular file");
  }
  MappedFile file;
  file.bytes = info.st_size;
  if (file.bytes == 0) {
    ::close(fd);
    return file;
  }
  const auto length = static_cast<size_t>(file.bytes);
  void* const address = ::mmap(nullptr, length, PROT_READ, MAP_PRIVATE, fd, 0);
  ::close(fd);
  if (address == MAP_FAILED) return system_failure("P0603", "cannot map", path);
  name_mapping(address, length, path.c_str());
  file.mapping = std::shared_ptr<void>(address, [length](void* p) {
    forget_mapping(p);
    ::munmap(p, length);
  });
  file.data = static_cast<const std::byte*>(address);
  return file;
}

Status write_file(const std::string& path, std::string_view text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return system_failure("P0602", "cannot write", path);
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      auto failure = system_failure("P0602", "cannot write", path);
      ::close(fd);
      return failure;
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
  if (::close(fd) != 0) return system_failure("P0602", "cannot write", path);
  return {};
}

std::string sha256(std::string_view bytes) {
  static const EVP_MD* const kind = EVP_MD_fetch(nullptr, "SHA256", nullptr);  // EVP_sha256() is looked up at each use
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  PIPER_CHECK(EVP_Digest(bytes.data(), bytes.size(), digest, &length, kind, nullptr) == 1);
  constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  for (unsigned i = 0; i < length; ++i) {
    text.push_back(kHex[digest[i] >> 4]);
    text.push_back(kHex[digest[i] & 15]);
  }
  return text;
}

}  // namespace piper::plan
