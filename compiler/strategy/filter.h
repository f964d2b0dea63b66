// Filters: conjunctions of TAG: value that pick nodes. The loader reads them; `to_string` shows
// them in diagnostics and in printed directives.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/strategy/strategy.h"
#include "compiler/strategy/value_reader.h"

namespace piper::strategy {

// Reads one filter. nullopt where an error was reported: P0218 a tag of `forbidden`, P0209 a malformed value. `what`
// names the filter in messages.
std::optional<Filter> read_filter(ReadContext& context, const Value& value,
                                  const std::vector<std::string_view>& forbidden, const std::string& what);
// The word of a pass in strategies: "F", "B", "BI" or "BW".
std::string_view pass_name(Pass pass);
// "7", or "0..3" with both ends; false where the text is neither. No bounds are checked.
bool parse_range(std::string_view text, std::pair<int64_t, int64_t>& out, bool& is_range);
// "{PP: 0, MB: [0, 2], PASS: F}", readable back as YAML.
std::string to_string(const Filter& filter);

}  // namespace piper::strategy
