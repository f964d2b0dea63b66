// Moves ops that autodiff put into a chunk that is an all_to_all (sums of the gradients of its result) into the chunk
// that makes the last of their operands: an exchange has no program. Input level: differentiated graph.
#pragma once

#include "compiler/ir/chunks.h"
#include "compiler/ir/module.h"

namespace piper::passes {

void leave_exchanges(ir::ChunkedGraph& chunked);

// On every variant.
Status leave_exchanges(ir::Module& module, diag::Diagnostics& diags);
}  // namespace piper::passes
