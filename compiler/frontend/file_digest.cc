#include "compiler/frontend/file_digest.h"

#include <filesystem>
#include <fstream>
#include <string_view>
#include <vector>

#include "schemas/plan/file_bytes.h"

namespace piper::frontend {

std::string file_digest(const std::string& path, const std::vector<std::string>& external) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return "";
  plan::Sha256 digest;
  std::vector<char> block(size_t{1} << 16);
  while (in) {
    in.read(block.data(), static_cast<std::streamsize>(block.size()));
    digest.add({block.data(), static_cast<size_t>(in.gcount())});
  }
  for (const std::string& file : external) {
    std::error_code failed;
    const auto size = std::filesystem::file_size(file, failed);
    digest.add("\n" + std::filesystem::path(file).filename().string() + " " + (failed ? "?" : std::to_string(size)));
  }
  return digest.finish();
}

}  // namespace piper::frontend
