#include "compiler/autodiff/rules/operand_gradients.h"

#include <utility>
#include <vector>

namespace piper::autodiff::rules {

ValueId grad(const RuleContext& ctx, size_t result) {
  ctx.read[result] = true;
  return ctx.grad_results[result];
}

const ir::TensorType& operand_type(const RuleContext& ctx, size_t operand) {
  return ctx.b.type(ctx.op.operands[operand]);
}

ValueId to_operand(const RuleContext& ctx, ValueId g, size_t operand) {
  const std::vector<int64_t> shape = operand_type(ctx, operand).shape;  // a copy: appending ops moves the types
  return ctx.b.sum_to_shape(g, shape);
}

ValueId keep_dims(const RuleContext& ctx, ValueId reduced, const ir::ReduceAttrs& attrs, size_t operand) {
  std::vector<int64_t> shape = operand_type(ctx, operand).shape;
  for (int64_t dim : attrs.dims) shape[static_cast<size_t>(dim)] = 1;
  return ctx.b.reshape(reduced, std::move(shape));
}

ValueId sum_but(const RuleContext& ctx, ValueId g, size_t axis) {
  std::vector<int64_t> dims;
  for (size_t i = 0; i < ctx.b.type(g).shape.size(); ++i)
    if (i != axis) dims.push_back(static_cast<int64_t>(i));
  return dims.empty() ? g : ctx.b.sum(g, std::move(dims), false);
}

}  // namespace piper::autodiff::rules
