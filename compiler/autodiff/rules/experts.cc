// Derivatives of the operators on rows in groups of experts. Padding rows are zero in the results and have
// no gradient: each of these operators reads the counts again.
#include "compiler/autodiff/rules/operand_gradients.h"
#include "compiler/autodiff/rules/rules.h"

namespace piper::autodiff::rules {

// Every index occurs once, so the way back is a reading by the inverse; a row that was read `repeat`
// times gets the sum.
std::vector<ValueId> take_rows(const RuleContext& ctx) {
  const int64_t repeat = std::get<ir::TakeRowsAttrs>(ctx.op.attrs).repeat;
  const ValueId index = ctx.op.operands[1], inverse = ctx.op.operands[2];
  std::vector<ValueId> result(3);
  if (!ctx.needs[0]) return result;
  result[0] = ctx.b.add1(OpKind::kTakeRows, {grad(ctx), inverse, index}, ir::TakeRowsAttrs{1});
  if (repeat == 1) return result;
  std::vector<int64_t> shape = operand_type(ctx, 0).shape;
  shape.insert(shape.begin() + 1, repeat);
  result[0] = ctx.b.sum(ctx.b.reshape(result[0], std::move(shape)), {1}, false);
  return result;
}

// dx = g w^T by groups, dw = x^T g by groups.
std::vector<ValueId> grouped_matmul(const RuleContext& ctx) {
  const bool transposed = std::get<ir::GroupedMatmulAttrs>(ctx.op.attrs).transposed;
  const ValueId x = ctx.op.operands[0], w = ctx.op.operands[1], counts = ctx.op.operands[2], g = grad(ctx);
  std::vector<ValueId> result(3);
  if (ctx.needs[0]) result[0] = ctx.b.add1(OpKind::kGroupedMatmul, {g, w, counts}, ir::GroupedMatmulAttrs{!transposed});
  if (ctx.needs[1])
    result[1] = ctx.b.add1(OpKind::kGroupedMatmulWeight,
                           transposed ? std::vector<ValueId>{g, x, counts} : std::vector<ValueId>{x, g, counts});
  return result;
}

std::vector<ValueId> grouped_expand(const RuleContext& ctx) {
  return {ctx.b.add1(OpKind::kGroupedSum, {grad(ctx), ctx.op.operands[1]}), ValueId()};
}

}  // namespace piper::autodiff::rules
