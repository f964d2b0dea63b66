// Derivatives of exchanges between ranks: every element returns to the rank that it came from.
#include "compiler/autodiff/rules/operand_gradients.h"
#include "compiler/autodiff/rules/rules.h"

namespace piper::autodiff::rules {

std::vector<ValueId> all_to_all(const RuleContext& ctx) {
  std::vector<ValueId> operands{grad(ctx)};
  if (ctx.op.operands.size() > 1) {
    operands.push_back(ctx.op.operands[2]);
    operands.push_back(ctx.op.operands[1]);
  }
  std::vector<ValueId> result(ctx.op.operands.size());
  result[0] = ctx.b.add1(OpKind::kAllToAll, std::move(operands));
  return result;
}

}  // namespace piper::autodiff::rules
