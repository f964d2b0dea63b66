// Derivatives of softmax and of the normalisations. Input and weight gradients are ops of their
// own; mean and rstd of the forward are operands of both.
#include "compiler/autodiff/rules/operand_gradients.h"
#include "compiler/autodiff/rules/rules.h"

namespace piper::autodiff::rules {

namespace {

bool wanted(const RuleContext& ctx, size_t operand) { return operand < ctx.needs.size() && ctx.needs[operand]; }
ValueId optional_operand(const RuleContext& ctx, size_t operand) {
  return operand < ctx.op.operands.size() ? ctx.op.operands[operand] : ValueId();
}

// Operators (x, w?, b?, ..) -> y, mean, rstd with backward ops (g, x, mean, rstd, w?) -> dx and
// (g, x, mean, rstd) -> dw, db.
std::vector<ValueId> with_mean(const RuleContext& ctx, OpKind input_backward, OpKind weight_backward) {
  const ValueId x = ctx.op.operands[0], mean = ctx.op.results[1], rstd = ctx.op.results[2];
  std::vector<ValueId> result(ctx.op.operands.size());
  if (ctx.needs[0])
    result[0] = ctx.b.add1(input_backward, {grad(ctx), x, mean, rstd, optional_operand(ctx, 1)}, ctx.op.attrs);
  if (wanted(ctx, 1) || wanted(ctx, 2)) {
    const std::vector<ValueId> both = ctx.b.add(weight_backward, {grad(ctx), x, mean, rstd}, ctx.op.attrs);
    if (both.size() == 2 && wanted(ctx, 1)) result[1] = both[0];
    if (both.size() == 2 && wanted(ctx, 2)) result[2] = both[1];
  }
  return result;
}

}  // namespace

std::vector<ValueId> softmax(const RuleContext& ctx) {
  return {ctx.b.add1(OpKind::kSoftmaxBackward, {grad(ctx), ctx.op.results[0]}, ctx.op.attrs)};
}

std::vector<ValueId> log_softmax(const RuleContext& ctx) {
  return {ctx.b.add1(OpKind::kLogSoftmaxBackward, {grad(ctx), ctx.op.results[0]}, ctx.op.attrs)};
}

std::vector<ValueId> layer_norm(const RuleContext& ctx) {
  return with_mean(ctx, OpKind::kLayerNormBackwardInput, OpKind::kLayerNormBackwardWeight);
}

std::vector<ValueId> rms_norm(const RuleContext& ctx) {
  const ValueId x = ctx.op.operands[0], rstd = ctx.op.results[1];
  std::vector<ValueId> result(ctx.op.operands.size());
  if (ctx.needs[0])
    result[0] = ctx.b.add1(OpKind::kRmsNormBackwardInput, {grad(ctx), x, rstd, optional_operand(ctx, 1)}, ctx.op.attrs);
  if (wanted(ctx, 1)) result[1] = ctx.b.add1(OpKind::kRmsNormBackwardWeight, {grad(ctx), x, rstd}, ctx.op.attrs);
  return result;
}

std::vector<ValueId> group_norm(const RuleContext& ctx) {
  return with_mean(ctx, OpKind::kGroupNormBackwardInput, OpKind::kGroupNormBackwardWeight);
}

std::vector<ValueId> batch_norm(const RuleContext& ctx) {
  return with_mean(ctx, OpKind::kBatchNormBackwardInput, OpKind::kBatchNormBackwardWeight);
}

}  // namespace piper::autodiff::rules
