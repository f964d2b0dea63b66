// Lowers the ops of each (chunk, phase) of a differentiated graph to a chunk program: a flat list of
// kernel calls on slots and one workspace.
//
// Input: a graph with chunks, after autodiff. Output: one program per (chunk, phase) that has ops, and for each slot
// what it holds, by which the emitter binds it to a rank's buffers. A value that leaves a chunk has a slot of its own;
// values that only the chunk's own backward reads are together in one `saved` slot; the rest is workspace. A gradient
// is added into its accumulator by the kernel that makes it where that kernel can. Programs do not depend on ranks,
// microbatches or weights.
#pragma once

#include "compiler/ir/module.h"

namespace piper::emit {

// Lowers every variant, by the layouts of the first, and sets Module::shapes.
void lower_programs(ir::Module& module);

}  // namespace piper::emit
