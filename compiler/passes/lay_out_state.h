// Settles where the state of training is once the order of the step is known: which device saves each tensor of the
// model, and before which node the gradients of a microbatch start at zero. StateLayout is then complete.
#pragma once

#include "compiler/ir/module.h"

namespace piper::passes {

void lay_out_state(ir::Module& module);

}  // namespace piper::passes
