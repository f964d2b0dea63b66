// The `order` directive: what runs after what on shared devices. Its spec, and the slots that it asks for; the edges
// between computes are a later pass's (passes/add_order_edges.h).
#pragma once

#include "compiler/directives/resolution.h"
#include "compiler/strategy/directive_spec.h"

namespace piper::directives {

const strategy::DirectiveSpec& order_spec();

// Adds the order's slots to the schedule. Errors: P0203, P0204, P0206.
Status resolve_order(const strategy::Directive& directive, Resolution& draft, diag::Diagnostics& diags);

// For when all orders are resolved: a backward of which they name the halves is split. Error P0222: one half is named
// without the other.
Status split_backwards(Resolution& draft, diag::Diagnostics& diags);

}  // namespace piper::directives
