// Copies operators that depend on parameters alone into the regions that read their results, where these run on other
// numbers of replicas. Each such region then reads the parameters themselves. The gradient of such a value is a sum
// over samples: sent between groups of different sizes it would have to be added up or parted on its way, while
// gradients of a parameter that several regions use are added up after their reductions, whatever the sizes. Between
// groups of one size the value itself travels: nothing is computed twice. It copies nothing that depends on an input; a
// statistic of the batch between such groups is refused later (P0511).
#pragma once

#include "compiler/ir/module.h"

namespace piper::passes {

void copy_weight_ops(ir::Module& module);

}  // namespace piper::passes
