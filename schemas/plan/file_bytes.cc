#include "schemas/plan/file_bytes.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "schemas/plan/mapped_names.h"

namespace piper::plan {
namespace {

Status system_failure(const char* code, const std::string& what, const std::string& path) {
  return Status::failure(code, what + " " + path + ": " + std::strerror(errno));
}

// Once: EVP_sha256() is looked up at each use. Without names of algorithms and a file of settings that nobody here asks
// for, which take a millisecond in each process.
const EVP_MD* sha256_kind() {
  static const EVP_MD* const kind = [] {
    OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ADD_ALL_CIPHERS | OPENSSL_INIT_NO_ADD_ALL_DIGESTS,
                        nullptr);
    return EVP_MD_fetch(nullptr, "SHA256", nullptr);
  }();
  return kind;
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
  Sha256 digest;
  digest.add(bytes);
  return digest.finish();
}

std::string sha256_of_blocks(std::string_view bytes, Blocks blocks) {
  if (bytes.size() <= blocks.bytes * blocks.count) return sha256(bytes);
  const size_t distance = (bytes.size() - blocks.bytes) / (blocks.count - 1);
  std::string digests;
  for (size_t i = 0; i < blocks.count; ++i) digests += sha256(bytes.substr(distance * i, blocks.bytes));
  return sha256(digests);
}

Sha256::Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
  PIPER_CHECK(context_ && EVP_DigestInit_ex(context_.get(), sha256_kind(), nullptr) == 1);
}
void Sha256::add(std::string_view bytes) {
  PIPER_CHECK(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
}
std::string Sha256::finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  PIPER_CHECK(EVP_DigestFinal_ex(context_.get(), digest.data(), &length) == 1);
  constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  for (unsigned i = 0; i < length; ++i) {
    text.push_back(kHex[digest[i] >> 4]);
    text.push_back(kHex[digest[i] & 15]);
  }
  return text;
}

}  // namespace piper::plan
