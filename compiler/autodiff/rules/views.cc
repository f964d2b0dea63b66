// Derivatives of views and of cast: the gradient takes the same path backwards.
#include "compiler/autodiff/rules/operand_gradients.h"
#include "compiler/autodiff/rules/rules.h"
#include "compiler/ir/shapes.h"

namespace piper::autodiff::rules {

std::vector<ValueId> reshape(const RuleContext& ctx) { return {ctx.b.reshape(grad(ctx), operand_type(ctx, 0).shape)}; }

std::vector<ValueId> permute(const RuleContext& ctx) {
  const auto& dims = std::get<ir::PermuteAttrs>(ctx.op.attrs).dims;
  return {ctx.b.permute(grad(ctx), ir::inverse_permutation(dims))};
}

std::vector<ValueId> expand(const RuleContext& ctx) { return {to_operand(ctx, grad(ctx), 0)}; }

std::vector<ValueId> slice(const RuleContext& ctx) {
  const auto& attrs = std::get<ir::SliceAttrs>(ctx.op.attrs);
  return {
      ctx.b.add1(OpKind::kSliceBackward, {grad(ctx)},
                 ir::SliceBackwardAttrs{operand_type(ctx, 0).shape, attrs.dim, attrs.start, attrs.end, attrs.step})};
}

std::vector<ValueId> cast(const RuleContext& ctx) { return {ctx.b.cast(grad(ctx), operand_type(ctx, 0).dtype)}; }

}  // namespace piper::autodiff::rules
