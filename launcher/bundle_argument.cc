#include "launcher/bundle_argument.h"

#include <filesystem>

namespace piper::launcher {

Result<std::optional<plan::OpenBundle>> bundle_among(const std::vector<std::string>& arguments,
                                                     const std::string& folder) {
  for (size_t i = 1; i < arguments.size(); ++i) {
    std::error_code none;
    const std::filesystem::path path = std::filesystem::path(folder) / arguments[i];
    if (!std::filesystem::is_regular_file(path / "manifest.json", none)) continue;
    PIPER_ASSIGN(plan::OpenBundle bundle, plan::open_bundle(path.string()));
    return std::optional(std::move(bundle));
  }
  return std::optional<plan::OpenBundle>();
}

}  // namespace piper::launcher
