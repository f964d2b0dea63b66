// Inserts what is done to gradients: reductions over replicas, sums of tied parameters, clipping, updates.
//
// All devices that a bucket's region runs on, whichever microbatches they have, sum its gradients in one reduction.
// Where gradients are kept in parts, every microbatch's gradients are reduced as soon as its backward is done, else
// once per step. Each use of a tied parameter is reduced over its own replicas first; the uses are then added in use
// order on every holder, so the sum does not depend on placement. Where all its uses are kept in the same parts, over
// groups of one size, holders of a part add up that part.
#pragma once

#include "compiler/ir/module.h"

namespace piper::passes {

void insert_gradient_work(ir::Module& module);

}  // namespace piper::passes
