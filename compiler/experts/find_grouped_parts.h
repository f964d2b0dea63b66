// Finds what can run on the rank that holds an expert in the grouped form: rows that an expert_order puts after one
// another, expert by expert, the products that take them by groups, and what is between. The analysis of
// partition_experts; it edits nothing.
//
// A rank sends each member the rows of that member's experts, in a part of fixed size with padding; the member has as
// many parts as sources, each in the order of experts, with counts of its own. So all ops between the rows' way in
// (take_rows by the order) and out (take_rows by the position) must work row by row: the marks of such values have no
// expert factor, and their first axis is the tokens.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/graph.h"
#include "compiler/experts/find_expert_parts.h"

namespace piper::experts {

enum class GroupedRole : uint8_t {
  kWeights,  // a view or cast of an expert weight
  kEnters,   // take_rows: rows of the model's order come in
  kInside,   // works row by row
  kLeaves,   // take_rows: rows go back to the model's order
};
struct GroupedOp {
  ir::OpId op;
  GroupedRole role = GroupedRole::kInside;
};
struct GroupedPart {
  ir::ChunkId chunk;
  ir::OpId order;                        // the expert_order
  int64_t experts = 1, rows = 1;         // E, and the rows of a rank: it never sends more to one member
  std::vector<ir::ValueId> weights;      // parameters whose first axis is E, in order
  std::vector<GroupedOp> ops;            // ascending
  std::map<uint32_t, ExpertMark> marks;  // value -> what it looks like on a rank
  bool padding_is_read = false;          // a trained parameter that experts share meets the rows: padding must be zero
};

// The parts of one chunk. Errors: P0333 rows or weights are used in a way that cannot be cut.
Result<std::vector<GroupedPart>> find_grouped_parts(const ExpertFacts& facts, ir::ChunkId chunk, const diag::Span& span,
                                                    diag::Diagnostics& diags);

}  // namespace piper::experts
