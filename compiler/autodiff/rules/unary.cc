// Derivatives of element-wise operators of one operand. Formulas: pytorch/tools/autograd/derivatives.yaml;
// where ATen saves the result instead of the operand, so do these.
#include <cmath>

#include "compiler/autodiff/rules/folded_products.h"
#include "compiler/autodiff/rules/operand_gradients.h"
#include "compiler/autodiff/rules/rules.h"

namespace piper::autodiff::rules {

namespace {
ValueId x_of(const RuleContext& ctx) { return ctx.op.operands[0]; }
ValueId y_of(const RuleContext& ctx) { return ctx.op.results[0]; }
}  // namespace

std::vector<ValueId> neg(const RuleContext& ctx) { return {negate(ctx, grad(ctx))}; }

std::vector<ValueId> abs(const RuleContext& ctx) {
  return {multiply(ctx, grad(ctx), ctx.b.add1(OpKind::kSign, {x_of(ctx)}))};
}

std::vector<ValueId> log_sigmoid(const RuleContext& ctx) {
  return {ctx.b.add1(OpKind::kLogSigmoidBackward, {grad(ctx), x_of(ctx)})};
}

std::vector<ValueId> softplus(const RuleContext& ctx) {
  return {ctx.b.add1(OpKind::kSoftplusBackward, {grad(ctx), x_of(ctx)})};
}

std::vector<ValueId> relu(const RuleContext& ctx) {
  return {ctx.b.add1(OpKind::kReluBackward, {grad(ctx), y_of(ctx)})};
}

std::vector<ValueId> leaky_relu(const RuleContext& ctx) {
  return {ctx.b.add1(OpKind::kLeakyReluBackward, {grad(ctx), x_of(ctx)}, ctx.op.attrs)};
}

std::vector<ValueId> gelu(const RuleContext& ctx) {
  return {ctx.b.add1(OpKind::kGeluBackward, {grad(ctx), x_of(ctx)}, ctx.op.attrs)};
}

// g e x^(e-1)
std::vector<ValueId> pow_scalar(const RuleContext& ctx) {
  const double exponent = std::get<ir::ExponentAttrs>(ctx.op.attrs).exponent;
  if (exponent == 0.0) return {zeros(ctx, operand_type(ctx, 0))};
  if (exponent == 1.0) return {grad(ctx)};
  ValueId power = x_of(ctx);
  if (exponent != 2.0) power = ctx.b.add1(OpKind::kPowScalar, {power}, ir::ExponentAttrs{exponent - 1.0});
  return {multiply(ctx, grad(ctx), scale(ctx, power, exponent))};
}

// The function of the next order.
std::vector<ValueId> polygamma(const RuleContext& ctx) {
  const ir::PolygammaAttrs next{std::get<ir::PolygammaAttrs>(ctx.op.attrs).n + 1};
  return {multiply(ctx, grad(ctx), ctx.b.add1(OpKind::kPolygamma, {x_of(ctx)}, next))};
}

// g where min <= x <= max, both bounds included as in ATen
std::vector<ValueId> clamp(const RuleContext& ctx) {
  const auto& attrs = std::get<ir::ClampAttrs>(ctx.op.attrs);
  const DType dtype = operand_type(ctx, 0).dtype;
  ValueId inside;
  if (!std::isinf(attrs.min)) inside = ctx.b.add1(OpKind::kGe, {x_of(ctx), scalar(ctx, attrs.min, dtype)});
  if (!std::isinf(attrs.max)) {
    const ValueId below = ctx.b.add1(OpKind::kLe, {x_of(ctx), scalar(ctx, attrs.max, dtype)});
    inside = inside.valid() ? ctx.b.add1(OpKind::kLogicalAnd, {inside, below}) : below;
  }
  if (!inside.valid()) return {grad(ctx)};
  return {ctx.b.add1(OpKind::kWhere, {inside, grad(ctx), scalar(ctx, 0.0, dtype)})};
}

}  // namespace piper::autodiff::rules
