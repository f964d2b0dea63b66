// Moves the gathers of values that backwards repeat (tensors/gather_again.h) to where they are needed. What such a
// gather reads is there since the forward, so order_nodes puts it early, and its result would be in memory from then
// on. Here it is issued before the compute that comes before its first reader: it runs beside that one, and is not
// waited for.
#pragma once

#include "compiler/ir/module.h"

namespace piper::passes {

void delay_gathers(ir::Module& module);

}  // namespace piper::passes
