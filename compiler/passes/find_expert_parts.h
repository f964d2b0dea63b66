// Finds what can run on the rank that holds an expert: the ops between the expert weights of one chunk and the places
// where tokens enter and leave. The analysis of partition_experts; it edits nothing.
//
// Weights indexed by expert are parameters [E, ..] with at least three axes that a product uses expert by expert, and
// parameters [E, ..] that are combined element by element with what such products make. From them, marks
// (expert_marks.h) run forward as far as every op can work on some experts and on the tokens of several sources:
//   - where an op contracts the experts (a gate that weighs and sums them), ranks make shares of the result that are
//   added;
//   - where an op mixes tokens (a combine matrix), or leaves the chunk, the value returns to the tokens' ranks whole;
//   - operands that no expert made are entries: sent to every rank, or cut by experts where they have them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/graph.h"
#include "compiler/passes/expert_marks.h"

namespace piper::passes {

struct PartOp {
  ir::OpId op;
  ExpertTransfer transfer;
  int32_t component = 0;  // ops of one component are connected; their tokens travel at the same time
};
struct ExpertPart {
  ir::ChunkId chunk;
  int64_t experts = 1;                   // E
  std::vector<ir::ValueId> weights;      // parameters whose first axis is E, in order
  std::vector<PartOp> ops;               // ascending
  std::map<uint32_t, ExpertMark> marks;  // value -> what it looks like on a rank
  std::vector<ir::ValueId> returned;     // values that ops outside of the part read, ascending
};

class ExpertFinder {
 public:
  // `graph` must not change while this lives.
  ExpertFinder(const ir::Graph& graph, size_t num_chunks);
  // The parts of one chunk, one per number of experts; empty where it has no expert weights. Errors: P0333 an op uses
  // an expert weight in a way that cannot be cut; the message names the op and its module.
  Result<std::vector<ExpertPart>> find(ir::ChunkId chunk, const diag::Span& span, diag::Diagnostics& diags) const;
  // [value] it depends on no input, so it is the same on every rank.
  const std::vector<bool>& same_for_all() const { return same_for_all_; }
  const ir::Uses& uses() const { return uses_; }
  const std::vector<ir::OpId>& forward_ops(ir::ChunkId chunk) const { return ops_[chunk.index]; }

 private:
  const ir::Graph& graph_;
  std::vector<bool> same_for_all_;
  ir::Uses uses_;                           // [value]
  std::vector<std::vector<ir::OpId>> ops_;  // [chunk] forward ops
};

}  // namespace piper::passes
