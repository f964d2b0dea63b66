// Moves ops that autodiff put into a chunk that is a conversion (sums of the gradients of its result) into the chunk
// that makes the last of their operands: a conversion has no program.
#pragma once

#include "compiler/ir/module.h"

namespace piper::passes {

void leave_exchanges(ir::Module& module);

}  // namespace piper::passes
