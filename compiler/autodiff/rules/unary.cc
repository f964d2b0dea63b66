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

std::vector<ValueId> exp(const RuleContext& ctx) { return {multiply(ctx, grad(ctx), y_of(ctx))}; }

std::vector<ValueId> log(const RuleContext& ctx) { return {ctx.b.add1(OpKind::kDiv, {grad(ctx), x_of(ctx)})}; }

// g / (2 y)
std::vector<ValueId> sqrt(const RuleContext& ctx) {
  return {ctx.b.add1(OpKind::kDiv, {grad(ctx), scale(ctx, y_of(ctx), 2.0)})};
}

// -1/2 g y^3
std::vector<ValueId> rsqrt(const RuleContext& ctx) {
  const ValueId cube = ctx.b.add1(OpKind::kPowScalar, {y_of(ctx)}, ir::ExponentAttrs{3.0});
  return {multiply(ctx, scale(ctx, grad(ctx), -0.5), cube)};
}

// -g y^2
std::vector<ValueId> reciprocal(const RuleContext& ctx) {
  const ValueId square = ctx.b.add1(OpKind::kMul, {y_of(ctx), y_of(ctx)});
  return {negate(ctx, multiply(ctx, grad(ctx), square))};
}

std::vector<ValueId> sin(const RuleContext& ctx) {
  return {multiply(ctx, grad(ctx), ctx.b.add1(OpKind::kCos, {x_of(ctx)}))};
}

std::vector<ValueId> cos(const RuleContext& ctx) {
  return {negate(ctx, multiply(ctx, grad(ctx), ctx.b.add1(OpKind::kSin, {x_of(ctx)})))};
}

// 2/sqrt(pi) exp(-x^2) g
std::vector<ValueId> erf(const RuleContext& ctx) {
  constexpr double kTwoOverSqrtPi = 1.12837916709551257390;
  const ValueId square = ctx.b.add1(OpKind::kMul, {x_of(ctx), x_of(ctx)});
  const ValueId bell = ctx.b.add1(OpKind::kExp, {ctx.b.add1(OpKind::kNeg, {square})});
  return {multiply(ctx, grad(ctx), scale(ctx, bell, kTwoOverSqrtPi))};
}

std::vector<ValueId> tanh(const RuleContext& ctx) {
  return {ctx.b.add1(OpKind::kTanhBackward, {grad(ctx), y_of(ctx)})};
}

std::vector<ValueId> sigmoid(const RuleContext& ctx) {
  return {ctx.b.add1(OpKind::kSigmoidBackward, {grad(ctx), y_of(ctx)})};
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

std::vector<ValueId> silu(const RuleContext& ctx) {
  return {ctx.b.add1(OpKind::kSiluBackward, {grad(ctx), x_of(ctx)})};
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
