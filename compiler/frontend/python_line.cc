#include "compiler/frontend/python_line.h"

namespace piper::frontend {

std::string python_line(std::string_view trace) {
  constexpr std::string_view kFile = "File \"", kLine = "\", line ";
  std::string own, any;
  for (size_t at = trace.find(kFile); at != std::string_view::npos; at = trace.find(kFile, at + 1)) {
    const size_t start = at + kFile.size();
    const size_t end = trace.find(kLine, start);
    if (end == std::string_view::npos) break;
    const std::string path(trace.substr(start, end - start));
    size_t digits = end + kLine.size();
    std::string line;
    while (digits < trace.size() && trace[digits] >= '0' && trace[digits] <= '9') line += trace[digits++];
    any = path.substr(path.find_last_of("/\\") + 1) + ":" + line;
    if (path.find("/torch/") == std::string::npos && path.rfind("torch/", 0) != 0) own = any;
  }
  return own.empty() ? any : own;
}

}  // namespace piper::frontend
