// Derivatives of what turns parts of a value into the whole and back.
#include "compiler/autodiff/rules/operand_gradients.h"
#include "compiler/autodiff/rules/rules.h"

namespace piper::autodiff::rules {

// Readers that are the same at every place have the whole gradient; those that have parts of the cut, an addend each.
std::vector<ValueId> all_gather(const RuleContext& ctx) {
  if (ctx.op.operands.size() < 2) return {ctx.b.add1(OpKind::kReduceScatter, {grad(ctx)}, ctx.op.attrs)};
  return {ctx.b.add1(OpKind::kOwnPart, {grad(ctx), ctx.op.operands[1]}, ctx.op.attrs), ValueId()};
}

// An addend of the sum has the gradients of all of its parts.
std::vector<ValueId> reduce_scatter(const RuleContext& ctx) {
  return {ctx.b.add1(OpKind::kAllGather, {grad(ctx)}, ctx.op.attrs)};
}

// What is the same at every place has the gradients of all of its parts.
std::vector<ValueId> own_part(const RuleContext& ctx) {
  return {ctx.b.add1(OpKind::kAllGather, {grad(ctx), ctx.op.operands[1]}, ctx.op.attrs), ValueId()};
}

}  // namespace piper::autodiff::rules
