// Derivatives of element-wise operators of two or three operands: each ends in a sum over the axes
// along which the operand was broadcast.
#include "compiler/autodiff/rules/folded_products.h"
#include "compiler/autodiff/rules/operand_gradients.h"
#include "compiler/autodiff/rules/rules.h"

namespace piper::autodiff::rules {

std::vector<ValueId> add(const RuleContext& ctx) {
  std::vector<ValueId> result(2);
  for (size_t i = 0; i < 2; ++i)
    if (ctx.needs[i]) result[i] = to_operand(ctx, grad(ctx), i);
  return result;
}

// The second gradient is negated after the sum over broadcast axes, where it is smallest.
std::vector<ValueId> sub(const RuleContext& ctx) {
  std::vector<ValueId> result(2);
  if (ctx.needs[0]) result[0] = to_operand(ctx, grad(ctx), 0);
  if (ctx.needs[1]) result[1] = negate(ctx, to_operand(ctx, grad(ctx), 1));
  return result;
}

std::vector<ValueId> mul(const RuleContext& ctx) {
  std::vector<ValueId> result(2);
  for (size_t i = 0; i < 2; ++i)
    if (ctx.needs[i]) result[i] = to_operand(ctx, multiply(ctx, grad(ctx), ctx.op.operands[1 - i]), i);
  return result;
}

// g / b and -g y / b
std::vector<ValueId> div(const RuleContext& ctx) {
  const ValueId b = ctx.op.operands[1], y = ctx.op.results[0];
  std::vector<ValueId> result(2);
  ValueId quotient;
  if (ctx.needs[0] || ctx.needs[1]) quotient = divide(ctx, grad(ctx), b);
  if (ctx.needs[0]) result[0] = to_operand(ctx, quotient, 0);
  if (ctx.needs[1]) result[1] = negate(ctx, to_operand(ctx, multiply(ctx, quotient, y), 1));
  return result;
}

namespace {

// Ties give half of the gradient to each side. wins[i]: the comparison (a, b) that is true where
// operand i is the result.
std::vector<ValueId> extremum(const RuleContext& ctx, const std::vector<OpKind>& wins) {
  const ValueId a = ctx.op.operands[0], b = ctx.op.operands[1], none = scalar(ctx, 0.0, operand_type(ctx, 0).dtype);
  const ValueId tie = ctx.b.add1(OpKind::kWhere, {ctx.b.add1(OpKind::kEq, {a, b}), scale(ctx, grad(ctx), 0.5), none});
  std::vector<ValueId> result(2);
  for (size_t i = 0; i < 2; ++i)
    if (ctx.needs[i])
      result[i] = to_operand(ctx, ctx.b.add1(OpKind::kWhere, {ctx.b.add1(wins[i], {a, b}), grad(ctx), tie}), i);
  return result;
}

}  // namespace

std::vector<ValueId> maximum(const RuleContext& ctx) { return extremum(ctx, {OpKind::kGt, OpKind::kLt}); }

std::vector<ValueId> minimum(const RuleContext& ctx) { return extremum(ctx, {OpKind::kLt, OpKind::kGt}); }

std::vector<ValueId> where(const RuleContext& ctx) {
  const ValueId condition = ctx.op.operands[0], none = scalar(ctx, 0.0, operand_type(ctx, 1).dtype);
  std::vector<ValueId> result(3);
  if (ctx.needs[1]) result[1] = to_operand(ctx, ctx.b.add1(OpKind::kWhere, {condition, grad(ctx), none}), 1);
  if (ctx.needs[2]) result[2] = to_operand(ctx, ctx.b.add1(OpKind::kWhere, {condition, none, grad(ctx)}), 2);
  return result;
}

}  // namespace piper::autodiff::rules
