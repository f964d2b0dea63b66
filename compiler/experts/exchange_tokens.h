// The ops around an all_to_all: what is sent is laid out as one part per member of the group, what is received is put
// back among the axes. Used by partition_experts; an ExpertMark says where experts and sources are.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/experts/expert_marks.h"

namespace piper::experts {

class TokenExchange {
 public:
  // Ops are appended through `b`. experts = E, devices = D, a divisor of E.
  TokenExchange(ir::GraphBuilder& b, int64_t experts, int64_t devices) : b_(b), experts_(experts), devices_(devices) {}

  // v, as every rank has it -> [D, ..]: the experts' share of each member, or where the mark names no experts v for
  // all.
  ir::ValueId parts_by_expert(ir::ValueId v, const ExpertMark& mark);
  // What the members sent with parts_by_expert -> the value on a rank, of local_shape(shape, mark).
  ir::ValueId join_tokens(ir::ValueId received, const ExpertMark& mark, const std::vector<int64_t>& shape);
  // The value on a rank -> [D, ..]: the tokens of each member.
  ir::ValueId parts_by_source(ir::ValueId local, const ExpertMark& mark, const std::vector<int64_t>& shape);
  // What the members sent with parts_by_source -> `shape`: all experts side by side.
  ir::ValueId join_experts(ir::ValueId received, const ExpertMark& mark, const std::vector<int64_t>& shape);

 private:
  ir::GraphBuilder& b_;
  int64_t experts_, devices_;
};

}  // namespace piper::experts
