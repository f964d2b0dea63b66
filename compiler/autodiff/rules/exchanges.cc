// Derivatives of what ranks send to each other.
#include "compiler/autodiff/rules/operand_gradients.h"
#include "compiler/autodiff/rules/rules.h"

namespace piper::autodiff::rules {

// Every element returns to the rank that it came from.
std::vector<ValueId> all_to_all(const RuleContext& ctx) {
  std::vector<ValueId> operands{grad(ctx)};
  if (ctx.op.operands.size() > 1) {
    operands.push_back(ctx.op.operands[2]);
    operands.push_back(ctx.op.operands[1]);
  }
  std::vector<ValueId> result(ctx.op.operands.size());
  result[0] = ctx.b.add1(OpKind::kAllToAll, std::move(operands), ctx.op.attrs);
  return result;
}

// What enters is read by every place, each of which has an addend of its gradient.
std::vector<ValueId> enter(const RuleContext& ctx) { return {ctx.b.add1(OpKind::kAllReduce, {grad(ctx)})}; }

// An addend has the gradient of the sum, of which its readers have parts.
std::vector<ValueId> all_reduce(const RuleContext& ctx) { return {ctx.b.add1(OpKind::kEnter, {grad(ctx)})}; }

}  // namespace piper::autodiff::rules
