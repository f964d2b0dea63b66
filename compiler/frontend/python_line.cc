#include "compiler/frontend/python_line.h"

namespace piper::frontend {

std::string python_line(std::string_view trace) {
  constexpr std::string_view kFile = "File \"", kLine = "\", line ";
  std::string_view own_name, own_line, name, line;
  for (size_t at = trace.find(kFile); at != std::string_view::npos; at = trace.find(kFile, at + 1)) {
    const size_t start = at + kFile.size();
    const size_t end = trace.find(kLine, start);
    if (end == std::string_view::npos) break;
    const std::string_view path = trace.substr(start, end - start);
    const size_t digits = end + kLine.size();
    size_t after = digits;
    while (after < trace.size() && trace[after] >= '0' && trace[after] <= '9') ++after;
    name = path.substr(path.find_last_of("/\\") + 1);
    line = trace.substr(digits, after - digits);
    if (path.find("/torch/") != std::string_view::npos || path.starts_with("torch/")) continue;
    own_name = name;
    own_line = line;
  }
  if (own_name.data() == nullptr) own_name = name, own_line = line;
  return own_name.data() == nullptr ? "" : std::string(own_name).append(":").append(own_line);
}

}  // namespace piper::frontend
