// What lowering makes of a graph: one program per (chunk, phase), and what each of its slots holds, by which emission
// binds it to a rank's buffers. A function of the graph alone (emit/lower_programs.h): text forms do not hold it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"
#include "schemas/plan/plan.h"

namespace piper::ir {

// Where the elements of a value lie: as a view of a root.
struct Layout {
  ValueId root;                  // the value whose storage holds the elements (itself for a root)
  int64_t offset = 0;            // elements of the root's dtype
  std::vector<int64_t> strides;  // elements
};

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
    kPlace,
    kLossScale,
    kValue,      // a root value of its own, made by some program of the same microbatch
    kSaved,      // a saved block of the chunk (index into SavedBlock)
    kCount,      // accumulator of a step_sum: added to by kCount, read and cleared by kCountFinish
    kStepValue,  // a value of phase kCountFinish: one per step
    kStepSum,    // accumulator of a sum of the step (index into step_sums)
  } kind = Kind::kValue;
  ValueId value;  // kValue, kStepValue, kCount (the step_sum's result): the root
  uint32_t index = 0;
};
struct LoweredProgram {
  ChunkId chunk;
  Phase phase = Phase::kForward;
  plan::Program program;         // named by the caller
  std::vector<SlotHolds> holds;  // [slot]
};

// One value that crosses from a program of one chunk to a program of another, by root.
struct Crossing {
  ChunkId from, to;
  Phase phase = Phase::kForward;  // that makes it
  ValueId value;
  Phase read_in = Phase::kForward;  // the first of `to` that reads it: a backward may read what a forward made
};

// A communication (ir::is_communication): the work of a chunk that has no program. Counts are of an all_to_all, and
// invalid where whole parts travel.
struct Exchange {
  OpKind kind = OpKind::kAllToAll;
  // `to` lies where `from` does: an all_reduce whose operand nothing else reads.
  bool in_place = false;
  ChunkId chunk;
  Phase phase = Phase::kForward;
  ValueId from, to;                     // roots
  ValueId send_counts, receive_counts;  // roots
};

struct LoweredGraph {
  std::vector<LoweredProgram> programs;  // by chunk, then phase
  std::vector<LoweredProgram>
      repeating;  // the same of chunks of which some microbatches repeat their forward: what these run instead
  std::vector<Exchange> exchanges;
  std::vector<Crossing> crossings;  // sorted by (phase, from, to, value)
  std::vector<Layout> layouts;
};

// What a chunk has, from its programs.
struct ChunkShape {
  std::array<bool, kNumPhases> has{};  // [phase] it has work
  std::vector<uint32_t> gradients;     // parameters whose gradients its backward adds up, ascending
  std::vector<uint32_t> reads;         // parameters its programs read, ascending
  std::array<std::vector<uint32_t>, kNumPhases> phase_reads;  // the same by phase
  std::array<std::vector<uint32_t>, kNumPhases>
      repeating_reads;  // of microbatches that repeat their forward where others do not
  bool has_phase(Phase phase) const { return has[static_cast<size_t>(phase)]; }
};
// [chunk]
std::vector<ChunkShape> chunk_shapes(const LoweredGraph& lowered, size_t num_chunks);

}  // namespace piper::ir
