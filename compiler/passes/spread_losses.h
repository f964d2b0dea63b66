// Takes a loss that is a sum of terms of several chunks apart: each term is added to the step's loss in the chunk that
// makes it.
//
// Graph::loss is then the last term, Graph::loss_terms the others; factors that were around a sum of terms are
// repeated for each of them. Why: a term that travelled to another chunk as a scalar would be lost or counted twice
// where its groups have other sizes, and would cost a message per microbatch each way. Whether terms are taken apart
// depends on chunks alone, never on placement.
#pragma once

#include "compiler/ir/module.h"

namespace piper::passes {

void spread_losses(ir::Module& module);

}  // namespace piper::passes
