// The text of a strategy together with its `--set` options, for programs that write strategies: whoever compiles the
// written file later does not know the command line. What the options do not change stays as the user wrote it,
// comments included, wherever YAML lets it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/diag/diagnostics.h"
#include "compiler/strategy/value.h"
#include "schemas/base/status.h"

namespace piper::strategy {

// `text`, which reads as `before`, with as few changes as make it read as `now`, a mapping: scalars are replaced where
// they are, and an entry of the file as a whole only where that cannot be. Ends in a newline.
std::string rewritten(const std::string& text, const Value& before, const Value& now);
// A mapping in lines, one for each of its keys.
std::string lines_of(const Value& root);
// Whether the text, which reads as `root`, stays the same mapping with another entry where a line is added to it. That
// of a file in braces does not.
bool takes_lines(const std::string& text, const Value& root);

// The text with what the overrides say; nothing of a bare list, which has no keys. Errors: those of reading YAML and
// overrides.
Result<std::optional<std::string>> overridden_text(const std::string& name, const std::string& text,
                                                   const std::vector<std::string>& overrides, diag::Diagnostics& diags);

}  // namespace piper::strategy
