// Adds everything between the last backward and the next step: gradient accumulators and their buckets,
// reductions over replicas, sums of tied parameters, clipping, updates.
//
// Input level: insert_transfers. Output level: a complete step. It stands before `order` is applied, which is about
// compute alone, and before order_nodes, which must see every node. A bucket holds whole parameters of one region in
// reverse model order; all devices that the region runs on, whichever microbatches they have, sum its gradients in one
// reduction. Where gradients are sharded, every microbatch's gradients are reduced as soon as its backward is done,
// else once per step. Each use of a tied parameter is reduced over its own replicas first; the uses are then added in
// use order on every holder, so the sum does not depend on placement. Where all its uses are sharded alike, over groups
// of one size, holders of the same part add up that part; else it is kept whole. A region that reads a trained
// parameter on other devices and adds nothing to its gradient has a sum of zeros, and so its copy is updated.
#pragma once

#include "compiler/ir/module.h"

namespace piper::passes {

void insert_gradient_work(ir::Module& module);

}  // namespace piper::passes
