#include "compiler/ir/spreads.h"

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
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const Op& op = graph.op(OpId(i));
    // The same at every place.
    if (op.kind == OpKind::kAllReduce || op.kind == OpKind::kAllGather || op.kind == OpKind::kCrossEntropySum) continue;
    int32_t cut = op.kind == OpKind::kOwnPart ? static_cast<int32_t>(std::get<PartsAttrs>(op.attrs).cut) : -1;
    for (const ValueId v : op.operands)
      if (v.valid() && spreads[v.index].cut >= 0) cut = spreads[v.index].cut;
    if (cut < 0) continue;
    for (const ValueId result : op.results)
      spreads[result.index] = {share[result.index] ? plan::Spread::kShare : plan::Spread::kPart, cut};
  }
  return spreads;
}

}  // namespace piper::ir
