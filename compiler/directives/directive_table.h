// The list of all directives, for the loader, the schema, the help text and the resolving. A new directive is one line
// in directive_table.def, its file, one line in CMake and its tests
// (docs/adding-a-directive.md).
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
// When a directive is resolved: who runs what; how it runs; and what asks which backwards the orders split.
enum class Stage : uint8_t { kPlace, kRun, kBehindOrders };
// Resolves the directives of the stage, in the table's order, and of one kind in the order of `directives`. Goes on
// after an error: each is in `diags`, and a directive that has one has added nothing to the draft.
void resolve_stage(Stage stage, const std::vector<strategy::Directive>& directives, Resolution& draft,
                   diag::Diagnostics& diags);
// Text of `piperc --help-directive NAME`; "" where there is no such directive.
std::string help_directive(std::string_view name);

}  // namespace piper::directives
