// The `stream` directive: named compute streams. Its spec, and what it says of regions.
#pragma once

#include "compiler/directives/resolution.h"
#include "compiler/strategy/directive_spec.h"

namespace piper::directives {

const strategy::DirectiveSpec& stream_spec();
// Puts the matched computes on the stream. It is resolved after every order, since orders say which backwards are
// split. Errors: P0203, P0204 (also BI or BW where no backward is split), P0206, P0217 two streams for one compute.
Status resolve_stream(const strategy::Directive& directive, Resolution& draft, diag::Diagnostics& diags);

}  // namespace piper::directives
