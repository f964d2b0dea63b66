// Filters: conjunctions of TAG: value that pick nodes. The loader reads them; `to_string` shows
// them in diagnostics and in printed directives.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/strategy/strategy.h"
#include "compiler/strategy/value_reader.h"

namespace piper::strategy {

// Reads one filter; a tag of `forbidden` is P0218, a malformed value P0209.
std::optional<Filter> read_filter(ReadContext& context, const Value& value,
                                  const std::vector<std::string_view>& forbidden, const std::string& what);
// "{PP: 0, MB: [0, 2], PASS: F}", readable back as YAML.
std::string to_string(const Filter& filter);

}  // namespace piper::strategy
