#include "compiler/experts/rewrite_grouped_part.h"

namespace piper::experts {

using ir::OpKind;
using ir::ValueId;

void GroupedPartRewriter::rewrite_order() {
  const ir::Op op = s_.graph.op(part_.order);
  ir::GraphBuilder b = s_.builder(op, shard_);
  const std::vector<ValueId> made =
      b.add(OpKind::kExpertOrder, {s_.resolve(op.operands[0])}, order_attrs_, s_.graph.value(op.results[0]).name);
  order_ = made[0];
  position_ = made[1];
  if (counts_dropped_) s_.graph.dropped.push_back(made[3]);
  counts_ =
      devices_ == 1 ? made[2] : s_.exchange(b, shard_, {made[2]}, s_.graph.value(made[2]).name + ".received", kCounts);
  if (!part_.padding_is_read && devices_ > 1) {
    rows_sent_ = b.sum(made[2], {1}, false);
    rows_received_ = b.sum(counts_, {1}, false);
  }
  PIPER_CHECK(b.status().ok(), "counts of rows: ", b.status().ok() ? "" : b.status().error().message);
}

// Rows of D parts, as they are sent.
std::vector<int64_t> GroupedPartRewriter::parts_of(ValueId rows) const {
  std::vector<int64_t> shape = s_.graph.type(rows).shape;
  shape[0] = segment_rows_;
  shape.insert(shape.begin(), devices_);
  return shape;
}

ValueId GroupedPartRewriter::travel(ir::GraphBuilder& b, ValueId rows, ValueId sent, ValueId received,
                                    const std::string& name, const char* way) {
  if (devices_ == 1) return rows;
  std::vector<ValueId> operands{b.reshape(rows, parts_of(rows))};
  if (sent.valid()) operands.insert(operands.end(), {sent, received});
  return s_.exchange(b, shard_, std::move(operands), name, way);
}

void GroupedPartRewriter::rewrite(const GroupedOp& grouped) {
  const ir::Op op = s_.graph.op(grouped.op);  // a copy: appending ops moves the graph's list
  const std::string name = s_.graph.value(op.results[0]).name;
  ir::GraphBuilder b = s_.builder(op, shard_);
  s_.dropped[grouped.op.index] = true;
  switch (grouped.role) {
    case GroupedRole::kEnters: {
      const ValueId rows = b.add1(OpKind::kTakeRows, {s_.resolve(op.operands[0]), order_, position_}, op.attrs, name);
      const ValueId received = travel(b, rows, rows_sent_, rows_received_, name + ".received", kToExperts);
      s_.inside[op.results[0].index] =
          s_.in_unit(b, unit_, [&] { return b.reshape(received, s_.graph.type(rows).shape); });
      return;
    }
    case GroupedRole::kLeaves: {
      const ValueId rows = s_.local(op.operands[0]);
      const std::vector<int64_t> shape = s_.graph.type(rows).shape;
      const ValueId returned = travel(b, rows, rows_received_, rows_sent_, name + ".returned", kFromExperts);
      s_.outside[op.results[0].index] =
          b.add1(OpKind::kTakeRows, {b.reshape(returned, shape), position_, order_}, op.attrs, name);
      PIPER_CHECK(b.status().ok(), "rows that return: ", b.status().ok() ? "" : b.status().error().message);
      return;
    }
    case GroupedRole::kWeights:
    case GroupedRole::kInside: break;
  }
  std::vector<ValueId> operands;
  const ValueId counts = s_.graph.op(part_.order).results[2];
  for (ValueId v : op.operands) {
    if (!v.valid()) operands.push_back(v);
    else if (v == counts) operands.push_back(counts_);
    else operands.push_back(part_.marks.count(v.index) ? s_.local(v) : s_.resolve(v));
  }
  const ExpertMark mark = part_.marks.at(op.results[0].index);
  std::vector<int64_t> made = local_shape(s_.graph.type(op.results[0]).shape, mark, devices_);
  if (mark.token.present()) made[0] = devices_ * segment_rows_;
  std::vector<ValueId> results;
  (void)s_.in_unit(b, unit_, [&] {
    results = b.add(op.kind, std::move(operands), PartitionState::local_attrs(op, made), name);
    return results[0];
  });
  for (size_t r = 0; r < results.size(); ++r) s_.inside[op.results[r].index] = results[r];
}

}  // namespace piper::experts
