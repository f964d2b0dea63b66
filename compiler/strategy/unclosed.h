// Where a text that is no YAML has a bracket that nothing closes. A parser goes on to the next line before it knows,
// and says that line.
#pragma once

#include <optional>
#include <string>

#include "compiler/diag/diagnostics.h"

namespace piper::strategy {

// The innermost '{' or '[' that is open where the next entry of a block begins, or at the end.
struct Unclosed {
  diag::Span span;
  char bracket;
};
std::optional<Unclosed> find_unclosed(uint32_t file, const std::string& text);

}  // namespace piper::strategy
