// Takes a loss that is a sum of terms of several chunks apart: each term is added to the step's loss in the chunk that
// makes it.
//
// Input level: losses normalised (the step's loss is the sum over pieces, so every term is one too). Output level:
// Graph::loss is the last term, Graph::loss_terms the others; factors that stood around a sum of terms are repeated for
// each of them. Why: a term that travelled to another chunk as a scalar would be lost or counted twice where its groups
// have other sizes, and would cost a message per microbatch each way. Whether terms are taken apart depends on chunks
// alone, never on placement. It stands before autodiff: each term's gradient is 1.
#pragma once

#include "compiler/ir/module.h"

namespace piper::passes {

void spread_losses(ir::Module& module);

}  // namespace piper::passes
