#include <algorithm>
#include <cctype>

#include "tools/piper_torchscript/convert.h"

namespace piper::torchscript {
namespace {

bool is_word(const std::string& text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

}  // namespace

Result<InputSpec> parse_input(const std::string& text) {
  const auto wrong = [&] {
    return Status::failure("", "'" + text + "' is no input; write NAME:DTYPE[EXTENT,...], e.g. input_ids:int64[B,16]");
  };
  const size_t colon = text.find(':'), open = text.find('[');
  if (colon == std::string::npos || open == std::string::npos || open < colon || text.back() != ']') return wrong();
  InputSpec out;
  out.name = text.substr(0, colon);
  out.dtype = text.substr(colon + 1, open - colon - 1);
  for (size_t at = open + 1; at < text.size() - 1;) {
    const size_t end = std::min(text.find(',', at), text.size() - 1);
    out.dims.push_back(text.substr(at, end - at));
    out.dims.back().erase(std::remove(out.dims.back().begin(), out.dims.back().end(), ' '), out.dims.back().end());
    at = end + 1;
  }
  if (!is_word(out.name) || !is_word(out.dtype) || !std::all_of(out.dims.begin(), out.dims.end(), is_word))
    return wrong();
  return out;
}

}  // namespace piper::torchscript
