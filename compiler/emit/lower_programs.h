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

#include "compiler/emit/layout.h"
#include "compiler/ir/graph.h"
#include "schemas/plan/plan.h"

namespace piper::emit {

// What one program of a chunk leaves for a later one of the same microbatch. Blocks differ by who reads them last, so
// that each is given back as early as possible.
enum SavedBlock : uint32_t {
  kForBackward,    // forward -> backward
  kForWeight,      // forward -> weight part of a split backward
  kInputToWeight,  // input part -> weight part
  kNumSavedBlocks,
};

struct SlotHolds {
  enum class Kind : uint8_t {
    kInput,      // graph input (index)
    kParameter,  // index into graph.parameters()
    kBuffer,     // index into graph.buffers()
    kConstant,   // index into graph.constants()
    kGradient,   // index into graph.parameters(): this chunk's accumulator
    kSeedStep,
    kSampleOffset,
    kValue,      // a root value of its own, made by some program of the same microbatch
    kSaved,      // a saved block of the chunk (index into SavedBlock)
    kCount,      // accumulator of a step_sum: added to by kCount, read and cleared by kCountFinish
    kStepValue,  // a value of phase kCountFinish: one per step
    kLoss,       // accumulator of the step's loss
    kDropped,    // accumulator of the step's number of dropped rows
  } kind = Kind::kValue;
  ir::ValueId value;  // kValue, kStepValue, kCount (the step_sum's result): the root
  uint32_t index = 0;
};
struct LoweredProgram {
  ir::ChunkId chunk;
  ir::Phase phase = ir::Phase::kForward;
  plan::Program program;         // named by the caller
  std::vector<SlotHolds> holds;  // [slot]
};

// One value that crosses from a program of one chunk to a program of another, by root.
struct Crossing {
  ir::ChunkId from, to;
  ir::Phase phase = ir::Phase::kForward;  // of both ends
  ir::ValueId value;
};

// An all_to_all: the work of a chunk that has no program. Counts are invalid where whole parts travel.
struct Exchange {
  ir::ChunkId chunk;
  ir::Phase phase = ir::Phase::kForward;
  ir::ValueId from, to;                     // roots
  ir::ValueId send_counts, receive_counts;  // roots
};

struct LoweredGraph {
  std::vector<LoweredProgram> programs;  // by chunk, then phase
  std::vector<LoweredProgram>
      repeating;  // the same of chunks of which some microbatches repeat their forward: what these run instead
  std::vector<Exchange> exchanges;
  std::vector<Crossing> crossings;  // sorted by (phase, from, to, value)
  std::vector<Layout> layouts;
};

// `num_chunks`: chunk ids are below it. `origin(op)` gives the key of the provenance table.
// `like`: the same graph lowered for another batch, or null (layout.h).
LoweredGraph lower_programs(const ir::Graph& graph, size_t num_chunks, const LoweredGraph* like = nullptr);

// Takes the programs of the chosen chunks from `other`, the same graph with their forwards repeated, as those of
// `lowered.repeating`. What chunks exchange must be equal in both.
void add_repeating(LoweredGraph& lowered, LoweredGraph other, const std::vector<bool>& chunks);

}  // namespace piper::emit
