#include "compiler/frontend/file_digest.h"

#include <openssl/evp.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <memory>

namespace piper::frontend {

std::string file_digest(const std::string& path, const std::vector<std::string>& external) {
  std::ifstream in(path, std::ios::binary);
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  if (!in || !context || EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) != 1) return "";
  std::vector<char> block(size_t{1} << 16);
  while (in) {
    in.read(block.data(), static_cast<std::streamsize>(block.size()));
    EVP_DigestUpdate(context.get(), block.data(), static_cast<size_t>(in.gcount()));
  }
  for (const std::string& file : external) {
    std::error_code failed;
    const auto size = std::filesystem::file_size(file, failed);
    const std::string line =
        "\n" + std::filesystem::path(file).filename().string() + " " + (failed ? "?" : std::to_string(size));
    EVP_DigestUpdate(context.get(), line.data(), line.size());
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  if (EVP_DigestFinal_ex(context.get(), digest.data(), &length) != 1) return "";
  std::string out;
  for (unsigned i = 0; i < length; ++i) {
    constexpr char kDigits[] = "0123456789abcdef";
    out += kDigits[digest[i] >> 4];
    out += kDigits[digest[i] & 15];
  }
  return out;
}

}  // namespace piper::frontend
