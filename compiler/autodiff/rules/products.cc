// Derivatives of matrix products and convolution. The gradient of each operand is an op of its own,
// so that a backward chunk can be cut into its input part and its weight part.
#include "compiler/autodiff/rules/operand_gradients.h"
#include "compiler/autodiff/rules/rules.h"

namespace piper::autodiff::rules {

// da = g b^T, db = a^T g, summed over broadcast leading axes. A matrix that met a batch of rows is
// differentiated by one product over all rows instead of one product for each batch entry.
std::vector<ValueId> matmul(const RuleContext& ctx) {
  const ValueId a = ctx.op.operands[0], b = ctx.op.operands[1], g = grad(ctx);
  const std::vector<int64_t> a_shape = operand_type(ctx, 0).shape, b_shape = operand_type(ctx, 1).shape;
  std::vector<ValueId> result(2);
  if (ctx.needs[0]) result[0] = to_operand(ctx, ctx.b.add1(OpKind::kMatmul, {g, ctx.b.transpose(b, -1, -2)}), 0);
  if (!ctx.needs[1]) return result;
  if (b_shape.size() == 2 && a_shape.size() > 2) {
    int64_t rows = 1;
    for (size_t d = 0; d + 1 < a_shape.size(); ++d) rows *= a_shape[d];
    const ValueId flat_a = ctx.b.reshape(a, {rows, b_shape[0]}), flat_g = ctx.b.reshape(g, {rows, b_shape[1]});
    result[1] = ctx.b.add1(OpKind::kMatmul, {ctx.b.transpose(flat_a, 0, 1), flat_g});
  } else {
    result[1] = to_operand(ctx, ctx.b.add1(OpKind::kMatmul, {ctx.b.transpose(a, -1, -2), g}), 1);
  }
  return result;
}

std::vector<ValueId> linear(const RuleContext& ctx) {
  const ValueId x = ctx.op.operands[0], w = ctx.op.operands[1], g = grad(ctx);
  std::vector<ValueId> result(ctx.op.operands.size());
  if (ctx.needs[0]) result[0] = ctx.b.add1(OpKind::kLinearBackwardInput, {g, w});
  if (ctx.needs[1]) result[1] = ctx.b.add1(OpKind::kLinearBackwardWeight, {g, x});
  if (result.size() > 2 && ctx.needs[2]) result[2] = sum_but(ctx, g, ctx.b.type(g).shape.size() - 1);
  return result;
}

std::vector<ValueId> convolution(const RuleContext& ctx) {
  const auto& attrs = std::get<ir::ConvolutionAttrs>(ctx.op.attrs);
  const ValueId x = ctx.op.operands[0], w = ctx.op.operands[1], g = grad(ctx);
  const auto attrs_for = [&](size_t operand) {
    return ir::ConvolutionBackwardAttrs{operand_type(ctx, operand).shape, attrs.stride, attrs.padding, attrs.dilation,
                                        attrs.groups};
  };
  std::vector<ValueId> result(ctx.op.operands.size());
  if (ctx.needs[0]) result[0] = ctx.b.add1(OpKind::kConvolutionBackwardInput, {g, w}, attrs_for(0));
  if (ctx.needs[1]) result[1] = ctx.b.add1(OpKind::kConvolutionBackwardWeight, {g, x}, attrs_for(1));
  if (result.size() > 2 && ctx.needs[2]) result[2] = sum_but(ctx, g, 1);
  return result;
}

}  // namespace piper::autodiff::rules
