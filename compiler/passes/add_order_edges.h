// Turns the schedule into order edges: from the last computes of each slot to the first of the next, and within a slot
// of several members from chunk to chunk of their alternation. Microbatches update running statistics one after the
// other. All orders are checked before the first edge is added. Errors: P0204 a filter that matches no compute, P0220 a
// slot that is not convex, P0234 slots without a common device that data do not order.
#pragma once

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/module.h"

namespace piper::passes {

Status add_order_edges(ir::Module& module, diag::Diagnostics& diags);

}  // namespace piper::passes
