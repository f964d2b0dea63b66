// Finds what can run on the rank that holds an expert: the ops between the expert weights of one chunk and the places
// where tokens enter and leave. The analysis of partition_experts; it edits nothing.
//
// Weights indexed by expert are parameters [E, ..] with at least three axes that a product uses expert by expert, and
// parameters [E, ..] that are combined element by element with what such products make. From them, marks
// (expert_marks.h) run forward as far as every op can work on some experts and on the tokens of several sources:
//   - where an op contracts the experts (a gate that weighs and sums them), ranks make parts of the sum, which are
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
#include "compiler/experts/expert_marks.h"

namespace piper::experts {

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

// What the searches for parts ask of the graph, which must not change while this lives.
struct ExpertFacts {
  ExpertFacts(const ir::Graph& graph, size_t num_chunks);
  const ir::Graph& graph;
  std::vector<bool> same_for_all;          // [value] it depends on no input, so it is the same on every rank
  ir::Uses uses;                           // [value]
  std::vector<std::vector<ir::OpId>> ops;  // [chunk] forward ops, in order
};

// The parts of one chunk, one per number of experts; empty where it has no expert weights. Errors: P0333 an op uses an
// expert weight in a way that cannot be cut; the message names the op and its module.
Result<std::vector<ExpertPart>> find_expert_parts(const ExpertFacts& facts, ir::ChunkId chunk, const diag::Span& span,
                                                  diag::Diagnostics& diags);

}  // namespace piper::experts
