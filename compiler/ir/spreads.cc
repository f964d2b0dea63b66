#include "compiler/ir/spreads.h"

#include <algorithm>

#include "compiler/ir/axis_map.h"

namespace piper::ir {
namespace {

// Whether its result is a share because its operands are.
bool keeps_shares(OpKind kind) {
  switch (kind) {
    case OpKind::kAdd:
    case OpKind::kSub:
    case OpKind::kNeg:
    case OpKind::kCast:
    case OpKind::kReshape:
    case OpKind::kPermute:
    case OpKind::kEnter:
    case OpKind::kAllToAll: return true;
    default: return false;
  }
}

// Whether a product sums over the axis along which its weight, as it is or through casts, permutes and reshapes, is
// cut.
bool sums_over_cut(const Graph& graph, const Op& op) {
  if (op.kind != OpKind::kLinear && op.kind != OpKind::kMatmul && op.kind != OpKind::kGroupedMatmul) return false;
  ValueId weight = op.operands[1];
  std::vector<const Op*> views;
  while (graph.value(weight).kind == ValueKind::kOpResult) {
    views.push_back(&graph.op(graph.value(weight).producer));
    const OpKind kind = views.back()->kind;
    if (kind != OpKind::kCast && kind != OpKind::kPermute && kind != OpKind::kReshape) return false;
    weight = views.back()->operands[0];
  }
  if (graph.value(weight).kind != ValueKind::kParameter) return false;
  const auto& cut = graph.parameters()[graph.value(weight).payload].cut;
  if (!cut) return false;
  int64_t axis = cut->axis;
  for (auto view = views.rbegin(); view != views.rend(); ++view) {
    const AxisMap axes(graph, **view);
    const OpAxis* const there = axes.of_operand(0, axis);
    const AxisPlace* const place = there == nullptr ? nullptr : there->in_result(0);
    if (place == nullptr) return false;
    axis = place->axis;
  }
  const AxisMap axes(graph, op);
  const OpAxis* const along = axes.of_operand(1, axis);
  return along != nullptr && along->results.empty();
}

// The cut across whose places an exchange sends rows; -1: it does not, or is none.
int32_t across_of(const Op& op) {
  const auto* const exchange = std::get_if<ExchangeAttrs>(&op.attrs);
  return exchange == nullptr ? -1 : static_cast<int32_t>(exchange->across);
}

// The cut of which operands are rows of all places; -1: none.
int32_t rows_of_all(const Op& op, const std::vector<int32_t>& of_all) {
  for (const ValueId v : op.operands)
    if (v.valid() && of_all[v.index] >= 0) return of_all[v.index];
  return -1;
}

}  // namespace

std::vector<ValueSpread> find_spreads(const Graph& graph) {
  std::vector<ValueSpread> spreads(graph.num_values());
  for (const Parameter& p : graph.parameters())
    if (p.cut) spreads[p.value.index] = {plan::Spread::kPart, p.cut->cut};
  std::vector<bool> share(graph.num_values(), false);
  for (size_t i = graph.num_ops(); i-- > 0;) {
    const Op& op = graph.op(OpId(i));
    if (op.kind == OpKind::kAccumulateGrad) {
      const ValueId parameter = std::get<AccumulateGradAttrs>(op.attrs).parameter;
      if (graph.parameters()[graph.value(parameter).payload].share >= 0) share[op.operands[0].index] = true;
    }
    const bool sums = op.kind == OpKind::kAllReduce || op.kind == OpKind::kReduceScatter;
    if (!sums && !(keeps_shares(op.kind) && share[op.results[0].index])) continue;
    const size_t addends = op.kind == OpKind::kAllToAll ? 1 : op.operands.size();  // the others are counts
    for (size_t a = 0; a < addends; ++a) share[op.operands[a].index] = true;
  }
  // What reads a share, before it is added up, is linear in it.
  std::vector<bool> of_columns(graph.num_values(), false);
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const Op& op = graph.op(OpId(i));
    const bool adds_up =
        op.kind == OpKind::kAllReduce || op.kind == OpKind::kReduceScatter || op.kind == OpKind::kCrossEntropySum;
    const bool reads = std::any_of(op.operands.begin(), op.operands.end(),
                                   [&](ValueId v) { return v.valid() && of_columns[v.index]; });
    if (adds_up || (!reads && !sums_over_cut(graph, op))) continue;
    for (const ValueId result : op.results) share[result.index] = of_columns[result.index] = true;
  }
  std::vector<int32_t> of_all(graph.num_values(), -1);  // rows of all places of this cut
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const Op& op = graph.op(OpId(i));
    const int32_t across = across_of(op), rows = rows_of_all(op, of_all);
    if (across >= 0 ? spreads[op.operands[0].index].cut >= 0 : rows >= 0) {
      for (const ValueId result : op.results) {
        of_all[result.index] = across >= 0 ? across : rows;
        if (share[result.index]) spreads[result.index] = {plan::Spread::kShare, rows};
      }
      continue;
    }
    // The same at every place.
    if (op.kind == OpKind::kAllReduce || op.kind == OpKind::kAllGather || op.kind == OpKind::kCrossEntropySum) continue;
    int32_t cut = op.kind == OpKind::kOwnPart ? static_cast<int32_t>(std::get<PartsAttrs>(op.attrs).cut) : across;
    for (const ValueId v : op.operands)
      if (v.valid() && spreads[v.index].cut >= 0) cut = spreads[v.index].cut;
    if (cut < 0) continue;
    for (const ValueId result : op.results)
      spreads[result.index] = {share[result.index] ? plan::Spread::kShare : plan::Spread::kPart, cut};
  }
  // A part that is made of what is the same at every place.
  for (size_t i = 0; i < graph.num_ops(); ++i)
    if (const Op& op = graph.op(OpId(i)); op.kind == OpKind::kAllGather)
      if (ValueSpread& part = spreads[op.operands[0].index]; part.cut < 0)
        part = {plan::Spread::kPart, static_cast<int32_t>(std::get<PartsAttrs>(op.attrs).cut)};
  return spreads;
}

}  // namespace piper::ir
