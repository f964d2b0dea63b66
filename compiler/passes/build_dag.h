// Builds the training DAG of one step from a placed, differentiated model: compute nodes per
// (chunk, pass, microbatch) with their data edges.
//
// Input level: lowered graph (crossings known), placement known. Output level: compute nodes only, all edges direct,
// also across groups: insert_transfers stands right behind it and replaces those. It must see the final number of
// microbatches.
#pragma once

#include "compiler/ir/module.h"

namespace piper::passes {

// Sets Module::dag of a module whose variants are lowered and whose distribution is complete.
void build_dag(ir::Module& module);

}  // namespace piper::passes
