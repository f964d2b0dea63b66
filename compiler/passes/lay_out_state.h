// Settles where the state of training stands once the order of the step is known: which device saves each tensor of the
// model, and in front of which node the gradients of a microbatch start at zero.
//
// Input level: insert_gathers. Output level: a complete StateLayout, which the emitter projects onto devices. It stands
// last: which compute comes first is a matter of the final order. (Buckets are formed earlier, by form_buckets, for
// there is one reduction for each; which gather serves which reader is said by insert_gathers, which makes the
// gathers.)
#pragma once

#include "compiler/ir/module.h"

namespace piper::passes {

void lay_out_state(ir::Module& module);

}  // namespace piper::passes
