#include "compiler/experts/rewrite_expert_part.h"

#include <algorithm>

#include "compiler/ir/shapes.h"
#include "compiler/experts/exchange_tokens.h"

namespace piper::experts {

using ir::OpId;
using ir::OpKind;
using ir::Shape;
using ir::ValueId;

void ExpertPartRewriter::rewrite(const PartOp& part_op) {
  const ir::Op op = s_.graph.op(part_op.op);  // a copy: appending ops moves the graph's list
  const ExpertTransfer& transfer = part_op.transfer;
  const int32_t unit = first_unit_ + part_op.component;
  ir::GraphBuilder b = s_.builder(op, shard_);
  std::vector<ValueId> operands;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const ValueId v = op.operands[i];
    if (!v.valid()) operands.push_back(v);
    else if (part_.marks.count(v.index)) operands.push_back(s_.local(v));
    else if (transfer.wishes[i]) operands.push_back(enter(b, v, *transfer.wishes[i], unit));
    else operands.push_back(s_.resolve(v));
  }
  const Shape shape = s_.graph.type(op.results[0]).shape;
  const Shape made = local_shape(shape, transfer.results[0], devices_);
  const std::vector<ValueId> results =
      b.add(op.kind, std::move(operands), PartitionState::local_attrs(op, made), s_.graph.value(op.results[0]).name);
  PIPER_CHECK(b.status().ok(), op_name(op.kind),
              " of an expert part: ", b.status().ok() ? "" : b.status().error().message);
  PIPER_CHECK(s_.graph.type(results[0]).shape == made, op_name(op.kind), " of an expert part is ",
              to_string(s_.graph.type(results[0])));
  s_.marks.unit[results[0].index] = unit;
  s_.dropped[part_op.op.index] = true;
  if (transfer.kind == ExpertTransfer::Kind::kSums) {
    s_.outside[op.results[0].index] = leave_sum(b, results[0], transfer.results[0], shape);
    return;
  }
  for (size_t r = 0; r < results.size(); ++r) {
    const ValueId old = op.results[r];
    s_.inside[old.index] = results[r];
    if (std::binary_search(part_.returned.begin(), part_.returned.end(), old))
      s_.outside[old.index] = leave_whole(b, results[r], transfer.results[r], s_.graph.type(old).shape);
  }
}

// v, which every rank has of its own tokens, as the part wishes it. Several ops that wish the same share one exchange.
ValueId ExpertPartRewriter::enter(ir::GraphBuilder& b, ValueId v, const OperandWish& wish, int32_t unit) {
  std::vector<View> views;
  OperandWish source = wish;
  ValueId at = v;
  if (wish.shape == s_.graph.type(v).shape && wish.mark.expert.present()) at = before_broadcast(v, source, views);
  const auto key = std::make_tuple(at.index, source.mark, source.shape, unit);
  ValueId result;
  if (auto found = entries_.find(key); found != entries_.end()) {
    result = found->second;
  } else {
    TokenExchange exchanges(b, part_.experts, devices_);
    const std::string name = s_.graph.value(at).name + ".received";
    const auto parts = [&] { return exchanges.parts_by_expert(b.expand(s_.resolve(at), source.shape), source.mark); };
    // What is the same on every rank (a mask) need not travel, unless each rank wants another part of it.
    const bool travels = !s_.same_for_all[at.index] || source.mark.expert.present() ||
                         s_.across[static_cast<size_t>(shard_)] >= 0;  // places have other tokens
    const ValueId received = travels ? s_.exchange(b, shard_, {parts()}, name, kToExperts) : s_.in_unit(b, unit, parts);
    result = s_.in_unit(b, unit, [&] { return exchanges.join_tokens(received, source.mark, source.shape); });
    entries_.emplace(key, result);
  }
  return s_.in_unit(b, unit, [&] {
    for (auto view = views.rbegin(); view != views.rend(); ++view) {
      const ir::Op op = s_.graph.op(view->op);
      result =
          b.add1(op.kind, {result},
                 PartitionState::local_attrs(op, local_shape(s_.graph.type(op.results[0]).shape, view->mark, devices_)),
                 s_.graph.value(op.results[0]).name);
    }
    return result;
  });
}

// Tokens that were only repeated for every expert travel once: follows views back to the broadcast that made the axis
// of experts, and gives the value before it, with `wish` for that; v itself where there is none. `views`: from v
// backwards.
ValueId ExpertPartRewriter::before_broadcast(ValueId v, OperandWish& wish, std::vector<View>& views) const {
  const ir::Graph& graph = s_.graph;
  ExpertMark mark = wish.mark;
  std::vector<View> seen;
  for (ValueId at = v; graph.value(at).kind == ir::ValueKind::kOpResult;) {
    const OpId id = graph.value(at).producer;
    const ir::Op& op = graph.op(id);
    if (op.chunk != part_.chunk || op.operands.size() != 1) return v;
    const Shape &from = graph.type(op.operands[0]).shape, &to = graph.type(at).shape;
    seen.push_back({id, mark});
    if (op.kind == OpKind::kReshape) {
      const auto back = reshaped(mark, part_.experts, to, from);
      if (!back) return v;
      mark = *back;
    } else if (op.kind == OpKind::kPermute) {
      const Shape& dims = std::get<ir::PermuteAttrs>(op.attrs).dims;
      mark.expert.axis = dims[static_cast<size_t>(mark.expert.axis)];
      mark.token.axis = dims[static_cast<size_t>(mark.token.axis)];
    } else if (op.kind == OpKind::kExpand) {
      const int64_t lead = static_cast<int64_t>(to.size() - from.size());
      const auto repeated = [&](int64_t axis) {
        return axis < lead || from[static_cast<size_t>(axis - lead)] != to[static_cast<size_t>(axis)];
      };
      if (repeated(mark.token.axis)) return v;
      mark.token.axis -= lead;
      if (repeated(mark.expert.axis)) {
        mark.expert = {};
        wish = {mark, from};
        views = std::move(seen);
        return op.operands[0];
      }
      mark.expert.axis -= lead;
    } else if (op.kind != OpKind::kCast && op.kind != OpKind::kDetach) {
      return v;
    }
    at = op.operands[0];
  }
  return v;
}

// The tokens of each source go back, with all experts side by side.
ValueId ExpertPartRewriter::leave_whole(ir::GraphBuilder& b, ValueId made, const ExpertMark& mark, Shape shape) {
  TokenExchange exchanges(b, part_.experts, devices_);
  const ValueId parts = exchanges.parts_by_source(made, mark, shape);
  const ValueId received = s_.exchange(b, shard_, {parts}, s_.graph.value(made).name + ".returned", kFromExperts);
  const ValueId result = exchanges.join_experts(received, mark, shape);
  PIPER_CHECK(b.status().ok(), "tokens that return: ", b.status().ok() ? "" : b.status().error().message);
  return result;
}

// Each member made its experts' share of a sum over experts: they are added in position order.
ValueId ExpertPartRewriter::leave_sum(ir::GraphBuilder& b, ValueId made, const ExpertMark& mark, Shape shape) {
  const ValueId parts = TokenExchange(b, part_.experts, devices_).parts_by_source(made, mark, shape);
  const ValueId received = s_.exchange(b, shard_, {parts}, s_.graph.value(made).name + ".returned", kFromExperts);
  const ValueId result = b.sum(received, {0}, false);
  PIPER_CHECK(b.status().ok() && s_.graph.type(result).shape == shape, "shares that return");
  return result;
}

}  // namespace piper::experts
