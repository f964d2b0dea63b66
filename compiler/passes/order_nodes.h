// Chooses ONE linear extension of the whole DAG; every rank's issue order is its projection. That is why the
// plans cannot deadlock, however their streams are chained.
//
// A list schedule under unit costs (backward twice a forward, communication free): among ready nodes the one that can
// start first; at equal readiness messages, then the earlier microbatch, backward before forward. Error P0221: the DAG
// has a cycle; every edge is printed with the line that made it.
#pragma once

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/module.h"

namespace piper::passes {

Status order_nodes(ir::Module& module, diag::Diagnostics& diags);

}  // namespace piper::passes
