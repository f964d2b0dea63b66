// The `recompute` directive: trades memory for a second forward. Its spec, and what it says of regions.
#pragma once

#include "compiler/directives/resolution.h"
#include "compiler/strategy/directive_spec.h"

namespace piper::directives {

const strategy::DirectiveSpec& recompute_spec();
// Marks the matched microbatches of the regions. Errors: P0203, P0204, P0206.
Status resolve_recompute(const strategy::Directive& directive, Resolution& draft, diag::Diagnostics& diags);

}  // namespace piper::directives
