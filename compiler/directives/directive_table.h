// The list of all directives, for the loader, the schema, the help text and the resolving. A new directive is one line
// in directive_table.def, its file, one line in CMake and its tests.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/directives/resolution.h"
#include "compiler/strategy/directive_spec.h"

namespace piper::directives {

// The specs in the table's order.
std::span<const strategy::DirectiveSpec* const> all_specs();
// The spec of a name, or null.
const strategy::DirectiveSpec* find_spec(std::string_view name);
// When a directive is resolved: who runs what first, since the others are about what runs; then orders, which say what
// backwards are split; then how the rest runs.
enum class Stage : uint8_t { kPlace, kOrder, kRun };
// Resolves those of `directives` that are of the stage, in the table's order, then in theirs. Goes on behind an error:
// each is in `diags`, and its directive has added nothing.
void resolve_stage(Stage stage, const std::vector<strategy::Directive>& directives, Resolution& draft,
                   diag::Diagnostics& diags);
// Text of `piperc --help-directive NAME`; "" where there is no such directive.
std::string help_directive(std::string_view name);

}  // namespace piper::directives
