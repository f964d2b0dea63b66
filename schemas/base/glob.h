// Globs over dotted module paths and parameter names: `*` matches any characters, none and dots
// included; a leading `*.` also matches nothing ("*.h.0" matches "h.0" and "a.h.0"). Those of strategies
// (annotate, freeze, no_decay, per_microbatch) and of piper-run's command line.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace piper {
namespace glob_details {

// Greedy with one point to return to: linear in practice, quadratic at worst.
inline bool matches(std::string_view glob, std::string_view text) {
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

inline bool matches_path(std::string_view glob, std::string_view path) {
  if (matches(glob, path)) return true;
  return glob.substr(0, 2) == "*." && matches(glob.substr(2), path);
}

}  // namespace glob_details

// The whole path matches; "*" alone also matches the root "".
inline bool glob_matches(const std::string& glob, const std::string& module_path) {
  return glob_details::matches_path(glob, module_path);
}
// The outermost module of `path` (itself included) that matches, or npos as its length.
inline size_t covering_length(const std::string& glob, const std::string& path) {
  for (size_t end = path.find('.'); end != std::string::npos; end = path.find('.', end + 1)) {
    if (glob_details::matches_path(glob, std::string_view(path).substr(0, end))) return end;
  }
  return glob_details::matches_path(glob, path) ? path.size() : std::string::npos;
}
// The path or a module that contains it matches: "*.wte" covers "transformer.wte.weight". A match
// is a whole component and never a name prefix ("h.1" does not cover "h.10").
inline bool glob_covers(const std::string& glob, const std::string& path) {
  return covering_length(glob, path) != std::string::npos;
}
// One of the paths, as a tied parameter has several.
inline bool glob_covers(const std::string& glob, const std::vector<std::string>& paths) {
  return std::any_of(paths.begin(), paths.end(), [&](const std::string& path) { return glob_covers(glob, path); });
}

}  // namespace piper
