// Copies operators that depend on parameters alone into the regions that read their results, where these run on groups
// of another size.
//
// Input level: regions, before losses are normalised. Output level: the same; each such region reads the parameters
// themselves, and these are used in several regions. It stands before track_batch, which must see every op. The
// gradient of such a value is a sum over samples: sent between groups of different sizes it would have to be added up
// or parted on its way, while gradients of a parameter that several regions use are added up after their reductions,
// whatever the sizes. Between groups of one size the value itself travels: nothing is computed twice. It copies nothing
// that depends on an input; a statistic of the batch between such groups is refused later (P0511).
#pragma once

#include "compiler/ir/module.h"

namespace piper::passes {

void copy_weight_ops(ir::Module& module);

}  // namespace piper::passes
