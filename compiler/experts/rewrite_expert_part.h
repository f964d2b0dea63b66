// Rewrites the ops of one ExpertPart for a rank that holds some of the experts, with the exchanges around them.
// Used by partition_experts alone, which calls it op by op in op order, so that what one part makes is there when
// another reads it.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "compiler/experts/find_expert_parts.h"
#include "compiler/experts/partition_state.h"

namespace piper::experts {

class ExpertPartRewriter {
 public:
  // `first_unit`: units of the part's components are numbered from there.
  ExpertPartRewriter(PartitionState& state, const ExpertPart& part, int32_t shard, int64_t devices, int32_t first_unit)
      : s_(state), part_(part), shard_(shard), devices_(devices), first_unit_(first_unit) {}
  void rewrite(const PartOp& op);

 private:
  // A view that is made again after the exchange, and the mark of its result.
  struct View {
    ir::OpId op;
    ExpertMark mark;
  };
  ir::ValueId enter(ir::GraphBuilder& b, ir::ValueId v, const OperandWish& wish, int32_t unit);
  ir::ValueId before_broadcast(ir::ValueId v, OperandWish& wish, std::vector<View>& views) const;
  ir::ValueId leave_whole(ir::GraphBuilder& b, ir::ValueId made, const ExpertMark& mark, std::vector<int64_t> shape);
  ir::ValueId leave_sum(ir::GraphBuilder& b, ir::ValueId made, const ExpertMark& mark, std::vector<int64_t> shape);

  PartitionState& s_;
  const ExpertPart& part_;
  int32_t shard_;
  int64_t devices_;
  int32_t first_unit_;
  std::map<std::tuple<uint32_t, ExpertMark, std::vector<int64_t>, int32_t>, ir::ValueId> entries_;
};

}  // namespace piper::experts
