// Derivatives of the summed losses. Class weights are data: one that needs a gradient gets none, and
// the caller reports it as not differentiable.
#include "compiler/autodiff/rules/operand_gradients.h"
#include "compiler/autodiff/rules/rules.h"

namespace piper::autodiff::rules {

namespace {
ValueId class_weight(const RuleContext& ctx) { return ctx.op.operands.size() > 2 ? ctx.op.operands[2] : ValueId(); }
}  // namespace

std::vector<ValueId> cross_entropy_sum(const RuleContext& ctx) {
  std::vector<ValueId> result(ctx.op.operands.size());
  std::vector<ValueId> operands{grad(ctx), ctx.op.operands[0], ctx.op.operands[1], ctx.op.results[1],
                                class_weight(ctx)};
  // The softmax of a place's own classes less its own targets: what places tell each other is in lse.
  if (ctx.op.operands.size() > 4) operands.push_back(ctx.op.operands[4]);
  if (ctx.needs[0]) result[0] = ctx.b.add1(OpKind::kCrossEntropyBackward, std::move(operands), ctx.op.attrs);
  return result;
}

std::vector<ValueId> nll_sum(const RuleContext& ctx) {
  const auto& attrs = std::get<ir::CrossEntropyAttrs>(ctx.op.attrs);
  std::vector<ValueId> result(ctx.op.operands.size());
  if (ctx.needs[0])
    result[0] = ctx.b.add1(OpKind::kNllBackward, {grad(ctx), ctx.op.operands[1], class_weight(ctx)},
                           ir::NllBackwardAttrs{operand_type(ctx, 0).shape, attrs.ignore_index});
  return result;
}

}  // namespace piper::autodiff::rules
