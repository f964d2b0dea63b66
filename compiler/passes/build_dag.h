// Builds the training DAG of one step from a placed, differentiated model: compute nodes per (chunk, pass, microbatch)
// with their data edges, which are direct, also across groups: insert_transfers replaces those.
#pragma once

#include "compiler/ir/module.h"

namespace piper::passes {

// Sets Module::dag of a module whose variants are lowered and whose distribution is complete.
void build_dag(ir::Module& module);

}  // namespace piper::passes
