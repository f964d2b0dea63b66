// Moves what backwards make again (tensors/gather_again.h, Chunk::again) to where it is needed. What a gather reads is
// there since the forward, so order_nodes puts it early, and its result would be in memory from then on. Here it is
// issued before the compute that comes before its first reader, after what makes its part again: it runs beside that
// compute, and is not waited for.
#pragma once

#include "compiler/ir/module.h"

namespace piper::passes {

void delay_gathers(ir::Module& module);

}  // namespace piper::passes
