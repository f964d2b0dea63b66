// Rewrites the ops of one GroupedPart for a rank that holds some of the experts. Counts travel first: each member
// learns how many rows of each of its experts come from each source. Then rows travel in parts of as many rows as the
// sender has, or as its experts' bounds allow, of which only the counted ones are sent; the way back is the same. A row
// over its expert's bound is sent nowhere, and zeros stand for it where rows leave. In a group of one device nothing
// travels. `places` divide a replica's rows, which are of all of them here: each bounds its own. Used by
// partition_experts alone, op by op in op order.
#pragma once

#include <cstdint>
#include <optional>

#include "compiler/experts/find_grouped_parts.h"
#include "compiler/experts/partition_state.h"
#include "compiler/ir/distribution.h"

namespace piper::experts {

class GroupedPartRewriter {
 public:
  GroupedPartRewriter(PartitionState& state, const GroupedPart& part, int32_t shard, int64_t devices, int32_t unit,
                      const std::optional<ir::RowBound>& bound, int64_t places)
      : s_(state),
        part_(part),
        shard_(shard),
        devices_(devices),
        unit_(unit),
        counts_dropped_(bound && !bound->strict),
        order_attrs_{part.experts, devices,
                     bound ? places * bound->rows_of_expert(part.rows / places, part.experts) : part.rows,
                     bound && bound->strict},
        segment_rows_(order_attrs_.segment_rows(part.rows)) {}
  // The expert_order itself comes first.
  void rewrite_order();
  void rewrite(const GroupedOp& op);

 private:
  ir::ValueId travel(ir::GraphBuilder& b, ir::ValueId rows, ir::ValueId sent, ir::ValueId received,
                     const std::string& name, const char* way);
  std::vector<int64_t> parts_of(ir::ValueId rows) const;

  PartitionState& s_;
  const GroupedPart& part_;
  int32_t shard_;
  int64_t devices_;
  int32_t unit_;
  bool counts_dropped_;
  ir::ExpertOrderAttrs order_attrs_;
  int64_t segment_rows_;                   // of a part that travels
  ir::ValueId order_, position_;           // of the rows that this rank sends
  ir::ValueId counts_;                     // [D, E/D] of the rows that it receives
  ir::ValueId rows_sent_, rows_received_;  // [D]
};

}  // namespace piper::experts
