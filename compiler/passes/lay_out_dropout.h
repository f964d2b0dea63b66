// Sets for every dropout which axis of its operand numbers the samples, by which its mask is keyed.
//
// Input level: bound forward graph. It changes nothing but the `outer`, `batch`, `inner` attributes of dropout ops.
#pragma once

#include <cstdint>

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/module.h"
#include "compiler/analysis/track_batch.h"

namespace piper::passes {

// Sets outer, batch, inner of every dropout. Error P0330: a dropout on a kMixed value under several pieces.
Status lay_out_dropout(ir::Graph& graph, const analysis::BatchMap& batch, int64_t local_batch, int64_t pieces,
                       diag::Diagnostics& diags);

// On every variant, the fewest samples first.
Status lay_out_dropout(ir::Module& module, diag::Diagnostics& diags);

}  // namespace piper::passes
