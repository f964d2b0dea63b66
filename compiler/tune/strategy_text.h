// Edits of a strategy as text: everything that is not changed stays as the user wrote it, and each change has a comment
// before it. Used by tune.h, which compiles every edited text before it keeps it. It knows keys and directives of
// the language, no meaning of them. Every function parses `text` anew and gives the new text; it fails, with a reason,
// where the text is of a form that it cannot edit (a mapping of several keys in one line of JSON, aliases): the change
// is then not made.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/base/status.h"

namespace piper::tune {

// Positions in the list of directives, from 0, of those with this `op`.
Result<std::vector<size_t>> directives_of(const std::string& text, std::string_view op);
// The key's scalar as it is written, "" where the directive lacks it.
Result<std::string> key_of(const std::string& text, size_t directive, std::string_view key);

// `comment`: without "# "; its lines become lines.
Result<std::string> with_key(const std::string& text, size_t directive, std::string_view key, const std::string& value,
                             const std::string& comment);
Result<std::string> without_directive(const std::string& text, size_t directive, const std::string& comment);
// `yaml`: a flow mapping, "{op: recompute, ..}", in place of the directive.
Result<std::string> with_directive_replaced(const std::string& text, size_t directive, const std::string& yaml,
                                            const std::string& comment);
// `yaml`: flow mappings, "{op: order, ..}"; they come after the directives that are there.
Result<std::string> with_directives(const std::string& text, const std::vector<std::string>& yaml,
                                    const std::string& comment);
// `yaml` in place of the schedule, which stays as a comment, as do `mesh` and `node` where no device list is left that
// names axes.
Result<std::string> with_directives_for_schedule(const std::string& text, const std::vector<std::string>& yaml,
                                                 const std::string& comment);

// A flow mapping over several lines of at most about 120 columns; those after the first begin with `indent` blanks.
std::string wrapped(const std::string& yaml, size_t indent);

}  // namespace piper::tune
