// Lowers the ops of each (chunk, phase) of a differentiated graph to a chunk program: a flat list of
// kernel calls on slots and one workspace.
//
// Input: a graph with chunks, after autodiff. Output: one program per (chunk, phase) that has ops, and for each slot
// what it holds, by which the emitter binds it to a rank's buffers. A value that leaves a chunk has a slot of its own;
// values that only the chunk's own backward reads stand together in one `saved` slot; the rest is workspace. A gradient
// is added into its accumulator by the kernel that makes it where that kernel can. Programs do not depend on ranks,
// microbatches or weights.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ir/module.h"

namespace piper::emit {

using ir::Crossing;
using ir::Exchange;
using ir::kForBackward;
using ir::kForWeight;
using ir::kInputToWeight;
using ir::kNumSavedBlocks;
using ir::Layout;
using ir::LoweredGraph;
using ir::LoweredProgram;
using ir::SavedBlock;
using ir::SlotHolds;

// `num_chunks`: chunk ids are below it. `origin(op)` gives the key of the provenance table.
// `like`: the same graph lowered for another batch, or null (layout.h).
LoweredGraph lower_programs(const ir::Graph& graph, size_t num_chunks, const LoweredGraph* like = nullptr);

// Takes the programs of the chosen chunks from `other`, the same graph with their forwards repeated, as those of
// `lowered.repeating`. What chunks exchange must be equal in both.
void add_repeating(LoweredGraph& lowered, LoweredGraph other, const std::vector<bool>& chunks);

// Lowers every variant, by the layouts of the first, and sets Module::shapes.
void lower_programs(ir::Module& module);

}  // namespace piper::emit
