#include "launcher/bundle_argument.h"

#include <filesystem>

namespace piper::launcher {

std::string bundle_among(const std::vector<std::string>& arguments, const std::string& folder) {
  for (size_t i = 1; i < arguments.size(); ++i) {
    std::error_code none;
    const std::filesystem::path path = std::filesystem::path(folder) / arguments[i];
    if (std::filesystem::is_regular_file(path / "manifest.json", none)) return path.string();
  }
  return {};
}

}  // namespace piper::launcher
