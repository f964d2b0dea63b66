// Derivatives of 2-d pooling.
#include "compiler/autodiff/rules/operand_gradients.h"
#include "compiler/autodiff/rules/rules.h"

namespace piper::autodiff::rules {

namespace {
ir::PoolBackwardAttrs backward_attrs(const RuleContext& ctx) {
  const auto& attrs = std::get<ir::PoolAttrs>(ctx.op.attrs);
  return {operand_type(ctx, 0).shape, attrs.kernel, attrs.stride, attrs.padding, attrs.dilation, attrs.ceil_mode};
}
}  // namespace

std::vector<ValueId> max_pool2d(const RuleContext& ctx) {
  return {ctx.b.add1(OpKind::kMaxPool2dBackward, {grad(ctx), ctx.op.results[1]}, backward_attrs(ctx))};
}

std::vector<ValueId> avg_pool2d(const RuleContext& ctx) {
  return {ctx.b.add1(OpKind::kAvgPool2dBackward, {grad(ctx)}, backward_attrs(ctx))};
}

}  // namespace piper::autodiff::rules
