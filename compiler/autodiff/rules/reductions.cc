// Derivatives of reductions and scans. The gradient of a sum is an expand: a view, not a tensor.
#include "compiler/autodiff/rules/folded_products.h"
#include "compiler/autodiff/rules/operand_gradients.h"
#include "compiler/autodiff/rules/rules.h"

namespace piper::autodiff::rules {

namespace {
constexpr double kLargestF16 = 65504;
}  // namespace

std::vector<ValueId> sum(const RuleContext& ctx) {
  const auto& attrs = std::get<ir::ReduceAttrs>(ctx.op.attrs);
  return {ctx.b.expand(keep_dims(ctx, grad(ctx), attrs, 0), operand_type(ctx, 0).shape)};
}

// Divided before it is expanded, while it is small. 16 bits hold most counts, and few reciprocals of them.
std::vector<ValueId> mean(const RuleContext& ctx) {
  const auto& attrs = std::get<ir::ReduceAttrs>(ctx.op.attrs);
  const std::vector<int64_t> shape = operand_type(ctx, 0).shape;
  double count = 1;
  for (int64_t dim : attrs.dims) count *= static_cast<double>(shape[static_cast<size_t>(dim)]);
  const ValueId g = grad(ctx);
  const DType dtype = ctx.b.type(g).dtype;
  const bool divides = dtype == DType::kBF16 || (dtype == DType::kF16 && count <= kLargestF16);
  const ValueId share =
      divides && count != 1 ? ctx.b.add1(OpKind::kDiv, {g, ctx.b.scalar(count, dtype)}) : scale(ctx, g, 1.0 / count);
  return {ctx.b.expand(keep_dims(ctx, share, attrs, 0), shape)};
}

// g / (number of ties) where x is the maximum
std::vector<ValueId> amax(const RuleContext& ctx) {
  const auto& attrs = std::get<ir::ReduceAttrs>(ctx.op.attrs);
  const DType dtype = operand_type(ctx, 0).dtype;
  const ValueId top = keep_dims(ctx, ctx.op.results[0], attrs, 0);
  const ValueId is_top = ctx.b.add1(OpKind::kEq, {ctx.op.operands[0], top});
  ValueId share = keep_dims(ctx, grad(ctx), attrs, 0);
  if (!attrs.dims.empty())
    share = ctx.b.add1(OpKind::kDiv, {share, ctx.b.sum(ctx.b.cast(is_top, dtype), attrs.dims, true)});
  return {ctx.b.add1(OpKind::kWhere, {is_top, share, scalar(ctx, 0.0, dtype)})};
}

namespace {
// Results (values, indices): the gradient of values goes back to the indices.
std::vector<ValueId> selected_along(const RuleContext& ctx, int64_t dim) {
  return {ctx.b.add1(OpKind::kScatter, {zeros(ctx, operand_type(ctx, 0)), ctx.op.results[1], grad(ctx)},
                     ir::DimAttrs{dim})};
}
}  // namespace

std::vector<ValueId> max_dim(const RuleContext& ctx) {
  return selected_along(ctx, std::get<ir::TopkAttrs>(ctx.op.attrs).dim);
}

std::vector<ValueId> topk(const RuleContext& ctx) {
  return selected_along(ctx, std::get<ir::TopkAttrs>(ctx.op.attrs).dim);
}

// The cumsum of g from the far end, written without a flip: sum - cumsum + g
std::vector<ValueId> cumsum(const RuleContext& ctx) {
  const int64_t dim = std::get<ir::DimAttrs>(ctx.op.attrs).dim;
  const ValueId g = grad(ctx);
  const ValueId total = ctx.b.sum(g, {dim}, true);
  const ValueId before = ctx.b.add1(OpKind::kCumsum, {g}, ctx.op.attrs);
  return {ctx.b.add1(OpKind::kAdd, {ctx.b.add1(OpKind::kSub, {total, before}), g})};
}

}  // namespace piper::autodiff::rules
