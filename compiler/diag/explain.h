// The list of error codes with their explanations (codes.def): `piperc --explain CODE`, the pages
// docs/errors/<code>.md, and the test that every emitted code has a page read it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace piper::diag {

struct CodeEntry {
  std::string_view code;   // "P0203"
  std::string_view title;  // one line
  std::string_view why;    // what the rule protects
  std::string_view fix;    // what to write instead
};
// Every code, in ascending order.
const std::vector<CodeEntry>& all_codes();
// The page of a code as Markdown; "" where there is no such code.
std::string explain(std::string_view code);

}  // namespace piper::diag
