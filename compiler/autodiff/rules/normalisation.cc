// Derivatives of softmax and of the normalisations. Input and weight gradients are ops of their
// own; mean and rstd of the forward are operands of both.
#include <algorithm>

#include "compiler/autodiff/rules/operand_gradients.h"
#include "compiler/autodiff/rules/rules.h"

namespace piper::autodiff::rules {

namespace {

bool wanted(const RuleContext& ctx, size_t operand) { return operand < ctx.needs.size() && ctx.needs[operand]; }
ValueId optional_operand(const RuleContext& ctx, size_t operand) {
  return operand < ctx.op.operands.size() ? ctx.op.operands[operand] : ValueId();
}

// What the gradients of mean and rstd, which may be invalid, add to that of x: x in rows of `width`, a mean and a rstd
// for each. d mean / d x = 1 / width; d rstd / d x = -rstd^3 (x - mean) / width. `mean` is invalid where a norm has
// none.
ValueId through_statistics(const RuleContext& ctx, ValueId dx, ValueId mean, ValueId rstd, ValueId of_mean,
                           ValueId of_rstd) {
  if (!of_mean.valid() && !of_rstd.valid()) return dx;
  ir::GraphBuilder& b = ctx.b;
  const ir::TensorType x = operand_type(ctx, 0), statistic = b.type(rstd);
  const int64_t rows = statistic.elements(), width = x.elements() / std::max<int64_t>(rows, 1);
  const auto column = [&](ValueId v) { return b.reshape(v, {rows, 1}); };
  const auto times = [&](ValueId u, ValueId v) { return b.add1(OpKind::kMul, {u, v}); };
  const auto scaled = [&](ValueId v, double by) { return times(v, b.scalar(by, statistic.dtype)); };
  const double share = 1.0 / static_cast<double>(std::max<int64_t>(width, 1));
  ValueId added;
  if (of_mean.valid()) added = b.expand(column(scaled(of_mean, share)), {rows, width});
  if (of_rstd.valid()) {
    ValueId centred = b.reshape(b.cast(ctx.op.operands[0], statistic.dtype), {rows, width});
    if (mean.valid()) centred = b.add1(OpKind::kSub, {centred, column(mean)});
    const ValueId slope = scaled(times(of_rstd, times(rstd, times(rstd, rstd))), -share);
    const ValueId part = times(centred, column(slope));
    added = added.valid() ? b.add1(OpKind::kAdd, {added, part}) : part;
  }
  return b.add1(OpKind::kAdd, {dx, b.cast(b.reshape(added, x.shape), x.dtype)});
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

std::vector<ValueId> with_statistics(const RuleContext& ctx, OpKind input_backward, OpKind weight_backward) {
  const ValueId mean = ctx.op.results[1], rstd = ctx.op.results[2], of_mean = grad(ctx, 1), of_rstd = grad(ctx, 2);
  std::vector<ValueId> result = with_mean(ctx, input_backward, weight_backward);
  if (ctx.needs[0]) result[0] = through_statistics(ctx, result[0], mean, rstd, of_mean, of_rstd);
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
  return with_statistics(ctx, OpKind::kLayerNormBackwardInput, OpKind::kLayerNormBackwardWeight);
}

std::vector<ValueId> rms_norm(const RuleContext& ctx) {
  const ValueId x = ctx.op.operands[0], rstd = ctx.op.results[1], of_rstd = grad(ctx, 1);
  std::vector<ValueId> result(ctx.op.operands.size());
  if (ctx.needs[0])
    result[0] = through_statistics(
        ctx, ctx.b.add1(OpKind::kRmsNormBackwardInput, {grad(ctx), x, rstd, optional_operand(ctx, 1)}, ctx.op.attrs),
        ValueId(), rstd, ValueId(), of_rstd);
  if (wanted(ctx, 1)) result[1] = ctx.b.add1(OpKind::kRmsNormBackwardWeight, {grad(ctx), x, rstd}, ctx.op.attrs);
  return result;
}

std::vector<ValueId> group_norm(const RuleContext& ctx) {
  return with_statistics(ctx, OpKind::kGroupNormBackwardInput, OpKind::kGroupNormBackwardWeight);
}

std::vector<ValueId> batch_norm(const RuleContext& ctx) {
  return with_mean(ctx, OpKind::kBatchNormBackwardInput, OpKind::kBatchNormBackwardWeight);
}

}  // namespace piper::autodiff::rules
