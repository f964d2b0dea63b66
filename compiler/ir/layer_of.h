// Layers of a model, by its module paths.
#pragma once

#include <algorithm>
#include <string_view>

namespace piper::ir {

// "transformer.h.3" of "transformer.h.3.mlp.c_fc": the path up to its first number. "" of a path without one.
inline std::string_view layer_of(std::string_view path) {
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    const std::string_view name = path.substr(begin, end - begin);
    if (!name.empty() && std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; }))
      return path.substr(0, end);
    begin = end + 1;
  }
  return {};
}

}  // namespace piper::ir
