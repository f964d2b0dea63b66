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

// Each repeats the product, so that the backward can be cut into its input part and its weight part.
std::vector<ValueId> linear_cross_entropy(const RuleContext& ctx) {
  const std::vector<ValueId>& of = ctx.op.operands;
  const auto optional = [&](size_t i) { return i < of.size() ? of[i] : ValueId(); };
  const std::vector<ValueId> operands{grad(ctx), of[0], of[1], of[2], ctx.op.results[1], optional(3), optional(4)};
  std::vector<ValueId> result(of.size());
  if (ctx.needs[0]) result[0] = ctx.b.add(OpKind::kLinearCrossEntropyBackwardInput, operands, ctx.op.attrs)[0];
  const bool bias = optional(3).valid() && ctx.needs[3];
  if (!ctx.needs[1] && !bias) return result;
  const std::vector<ValueId> made = ctx.b.add(OpKind::kLinearCrossEntropyBackwardWeight, operands, ctx.op.attrs);
  if (ctx.needs[1]) result[1] = made[0];
  if (bias) result[3] = made[2];
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
