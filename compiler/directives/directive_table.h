// The list of all directives, for the loader, the schema and the help text. A new directive is one
// line in directive_table.def, its file, one line in CMake and its tests.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "compiler/strategy/directive_spec.h"

namespace piper::directives {

// The specs in the table's order.
std::span<const strategy::DirectiveSpec* const> all_specs();
// The spec of a name, or null.
const strategy::DirectiveSpec* find_spec(std::string_view name);
// Text of `piperc --help-directive NAME`; "" where there is no such directive.
std::string help_directive(std::string_view name);

}  // namespace piper::directives
