// Adds the gathers of sharded parameters before the computes that read them, in the DAG and in its order; since
// each is before its reader and after nothing, the order stays a linear extension. A gather for one compute is
// issued `prefetch` computes of its group ahead; what is gathered lives from there to its last reader, so memory
// follows from this order alone. What is still there at that place is not gathered again.
#pragma once

#include "compiler/ir/module.h"

namespace piper::passes {

void insert_gathers(ir::Module& module);

}  // namespace piper::passes
