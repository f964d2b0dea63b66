// Text of attributes, numbers and value names as they are in .pir files and in messages.
// Used by the printer, the parser, diagnostics and tests. It knows nothing of whole graphs; the
// graph, where given, only lends names to ValueId attributes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"

namespace piper::ir {

// "dim=1, start=0, end=4, step=1"; "" where the operator has no attributes.
std::string to_string(const Attrs& attrs, const Graph* graph = nullptr);
// Same struct and same members (numbers by their shortest text, so -0 differs from 0).
bool equal(const Attrs& a, const Attrs& b);
// The shortest text that reads back to the same double; "inf", "-inf", "nan"; always with a
// point or exponent, so that it differs from an integer ("1.0").
std::string number_text(double value);
// "%name", or "%\"name\"" where the name holds characters that the grammar uses.
std::string value_text(std::string_view name);
// "text" with `"`, `\` and line ends escaped by a backslash.
std::string string_literal(std::string_view text);
// "[A, B]": `text` makes an entry's text.
template <class List, class Text>
std::string list_text(const List& list, const Text& text) {
  std::string all = "[";
  for (const auto& entry : list) all.append(all.size() > 1 ? ", " : "").append(text(entry));
  return all + "]";
}
std::string list_text(const std::vector<int64_t>& numbers);

}  // namespace piper::ir
