// Forms the buckets in which gradients are reduced and parameters updated: an accumulator for each use of a trained
// parameter by a region, buckets of whole parameters of one region in reverse model order, and what each member of a
// bucket's team keeps.
//
// Parameters that are updated as whole matrices have buckets of their own, of which each part has some of them whole; a
// part is as large as the fullest one.
//
// A parameter is kept whole where the parts of its uses are not the same elements, or where others read it elsewhere. A
// region that reads a trained parameter on other devices and adds nothing to its gradient has a sum of zeros, so that
// its copy is updated.
#pragma once

#include "compiler/ir/module.h"

namespace piper::passes {

void form_buckets(ir::Module& module);

}  // namespace piper::passes
