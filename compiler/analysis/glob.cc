#include "compiler/analysis/glob.h"

#include <algorithm>

namespace piper::analysis {
namespace {

// Greedy with one point to return to: linear in practice, quadratic at worst.
bool matches(std::string_view glob, std::string_view text) {
  size_t g = 0, t = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = g++;
      resume = t;
    } else if (g < glob.size() && glob[g] == text[t]) {
      ++g, ++t;
    } else if (star != std::string_view::npos) {
      g = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (g < glob.size() && glob[g] == '*') ++g;
  return g == glob.size();
}

bool matches_path(std::string_view glob, std::string_view path) {
  if (matches(glob, path)) return true;
  return glob.substr(0, 2) == "*." && matches(glob.substr(2), path);
}

}  // namespace

bool glob_matches(const std::string& glob, const std::string& module_path) { return matches_path(glob, module_path); }

bool glob_covers(const std::string& glob, const std::vector<std::string>& paths) {
  return std::any_of(paths.begin(), paths.end(), [&](const std::string& path) { return glob_covers(glob, path); });
}

size_t covering_length(const std::string& glob, const std::string& path) {
  for (size_t end = path.find('.'); end != std::string::npos; end = path.find('.', end + 1)) {
    if (matches_path(glob, std::string_view(path).substr(0, end))) return end;
  }
  return matches_path(glob, path) ? path.size() : std::string::npos;
}

bool glob_covers(const std::string& glob, const std::string& path) {
  return covering_length(glob, path) != std::string::npos;
}

}  // namespace piper::analysis
