#include "compiler/passes/lay_out_state.h"

#include <map>
#include <set>
#include <utility>

#include "schemas/base/check.h"

namespace piper::passes {
namespace {

int32_t first_rank(const ir::Module& module, ir::ChunkId chunk) {
  return module.distribution.ranks(module.distribution.group(chunk, 0))[0];
}

// Exactly one rank writes each tensor into saved weights: the first that trains it, else the first that reads it, else
// rank 0. Devices that run an operator with a state (running statistics) on other samples have other values in theirs:
// the first device of the first microbatch saves its own, as PyTorch does where each replica keeps its statistics.
void choose_owners(ir::Module& module) {
  ir::StateLayout& state = module.state;
  state.parameter_owner.assign(state.parameter_uses.size(), 0);
  state.unread.assign(state.parameter_uses.size(), true);
  for (size_t p = 0; p < state.parameter_uses.size(); ++p) {
    if (state.parameter_uses[p].empty()) continue;
    state.parameter_owner[p] = module.distribution.ranks(state.accumulators[state.parameter_uses[p][0].index].group)[0];
    state.unread[p] = false;
  }
  state.buffer_owner.assign(module.graph().buffers().size(), -1);
  for (const ir::LoweredProgram& program : module.variants[0].lowered.programs)
    for (const ir::SlotHolds& holds : program.holds) {
      if (holds.kind == ir::SlotHolds::Kind::kParameter && state.unread[holds.index]) {
        state.parameter_owner[holds.index] = first_rank(module, program.chunk);
        state.unread[holds.index] = false;
      }
      if (holds.kind == ir::SlotHolds::Kind::kBuffer && state.buffer_owner[holds.index] < 0)
        state.buffer_owner[holds.index] = first_rank(module, program.chunk);
    }
}

// Buckets whose gradients are added up a microbatch at a time, that a chunk's program adds to in a phase.
std::vector<ir::BucketId> added_a_microbatch(const ir::Module& module, const ir::LoweredProgram& program) {
  std::vector<ir::BucketId> buckets;
  for (const ir::SlotHolds& holds : program.holds) {
    if (holds.kind != ir::SlotHolds::Kind::kGradient) continue;
    const ir::AccumulatorId use = module.find_accumulator(holds.index, program.chunk);
    PIPER_CHECK(use.valid(), "no accumulator for parameter ", holds.index);
    if (module.state.bucket_of(use).gradients == ir::Kept::kPart)
      buckets.push_back(module.state.accumulators[use.index].bucket);
  }
  return buckets;
}

void place_clears(ir::Module& module) {
  using Adds = std::map<std::pair<ir::ChunkId, ir::Phase>, std::vector<ir::BucketId>>;
  Adds once, repeating;
  for (const ir::LoweredProgram& program : module.variants[0].lowered.programs)
    once[{program.chunk, program.phase}] = added_a_microbatch(module, program);
  for (const ir::LoweredProgram& program : module.variants[0].lowered.repeating)
    repeating[{program.chunk, program.phase}] = added_a_microbatch(module, program);
  std::set<std::pair<ir::BucketId, int32_t>> cleared;
  for (ir::NodeId id : module.dag.order) {
    const auto* compute = std::get_if<ir::ComputeNode>(&module.dag.nodes[id.index].payload);
    if (compute == nullptr) continue;
    const Adds& adds = module.distribution.repeats(compute->chunk, compute->microbatch) ? repeating : once;
    const auto buckets = adds.find({compute->chunk, compute->phase});
    if (buckets == adds.end()) continue;
    for (ir::BucketId bucket : buckets->second)
      if (cleared.emplace(bucket, compute->microbatch).second)
        module.state.clears[id].push_back({bucket, compute->microbatch});
  }
}

}  // namespace

void lay_out_state(ir::Module& module) {
  choose_owners(module);
  place_clears(module);
}

}  // namespace piper::passes
