// Derivatives of attention, rotary embeddings and dropout. A float mask and a table of angles that need a gradient get
// none here: the caller reports them as not differentiable.
#include "compiler/autodiff/rules/operand_gradients.h"
#include "compiler/autodiff/rules/rules.h"

namespace piper::autodiff::rules {

// The gradients of queries, keys and values come from y and lse as they are: where a sink takes part in both, from
// those with the sink.
std::vector<ValueId> scaled_dot_product_attention(const RuleContext& ctx) {
  std::vector<ValueId> operands = {grad(ctx)};
  for (size_t i = 0; i < 3; ++i) operands.push_back(ctx.op.operands[i]);
  operands.push_back(ctx.op.results[0]);
  operands.push_back(ctx.op.results[1]);
  operands.push_back(ctx.op.operands.size() > 3 ? ctx.op.operands[3] : ValueId());
  const std::vector<ValueId> backward = ctx.b.add(OpKind::kSdpaBackward, std::move(operands), ctx.op.attrs);
  std::vector<ValueId> result(ctx.op.operands.size());
  for (size_t i = 0; i < 3 && i < backward.size(); ++i)
    if (ctx.needs[i]) result[i] = backward[i];
  if (result.size() > 4 && ctx.needs[4])
    result[4] = ctx.b.add1(OpKind::kAttentionSinkBackward,
                           {grad(ctx), ctx.op.results[0], ctx.op.results[1], ctx.op.operands[4]});
  return result;
}

// A rotation's transpose.
std::vector<ValueId> rotary(const RuleContext& ctx) {
  std::vector<ValueId> result(ctx.op.operands.size());
  if (ctx.needs[0])
    result[0] = ctx.b.add1(OpKind::kRotaryBackward, {grad(ctx), ctx.op.operands[1], ctx.op.operands[2]});
  return result;
}

// The mask is a function of position, so that the same operator on g applies it again.
std::vector<ValueId> dropout(const RuleContext& ctx) {
  std::vector<ValueId> result(ctx.op.operands.size());
  std::vector<ValueId> operands = ctx.op.operands;
  operands[0] = grad(ctx);
  result[0] = ctx.b.add1(OpKind::kDropout, std::move(operands), ctx.op.attrs);
  return result;
}

}  // namespace piper::autodiff::rules
