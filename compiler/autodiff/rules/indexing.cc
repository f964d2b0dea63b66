// Derivatives of operators that read or write at indices, and of cat and pad.
#include <algorithm>

#include "compiler/autodiff/rules/folded_products.h"
#include "compiler/autodiff/rules/operand_gradients.h"
#include "compiler/autodiff/rules/rules.h"

namespace piper::autodiff::rules {

namespace {

// g read at the indices; a source larger than its index was read only where the index is.
ValueId gradient_of_source(const RuleContext& ctx, size_t source) {
  const ValueId read = ctx.b.add1(OpKind::kGather, {grad(ctx), ctx.op.operands[1]}, ctx.op.attrs);
  const std::vector<int64_t> shape = operand_type(ctx, source).shape;
  const std::vector<int64_t> read_shape = ctx.b.type(read).shape;
  if (shape == read_shape) return read;
  ir::PadAttrs pad{std::vector<int64_t>(shape.size(), 0), shape, 0.0};
  for (size_t i = 0; i < shape.size(); ++i) pad.high[i] -= read_shape[i];
  return ctx.b.add1(OpKind::kPad, {read}, pad);
}

}  // namespace

std::vector<ValueId> embedding(const RuleContext& ctx) {
  const auto& attrs = std::get<ir::EmbeddingAttrs>(ctx.op.attrs);
  std::vector<ValueId> operands = ctx.op.operands, result(ctx.op.operands.size());
  operands[0] = grad(ctx);
  result[0] = ctx.b.add1(
      OpKind::kEmbeddingBackward, std::move(operands),
      ir::EmbeddingBackwardAttrs{operand_type(ctx, 0).shape, attrs.padding_idx, attrs.scale_grad_by_freq, attrs.whole});
  return result;
}

std::vector<ValueId> gather(const RuleContext& ctx) {
  return {
      ctx.b.add1(OpKind::kScatterAdd, {zeros(ctx, operand_type(ctx, 0)), ctx.op.operands[1], grad(ctx)}, ctx.op.attrs),
      ValueId()};
}

std::vector<ValueId> scatter(const RuleContext& ctx) {
  std::vector<ValueId> result(3);
  if (ctx.needs[0]) {
    const ValueId none = ctx.b.expand(scalar(ctx, 0.0, operand_type(ctx, 0).dtype), operand_type(ctx, 1).shape);
    result[0] = ctx.b.add1(OpKind::kScatter, {grad(ctx), ctx.op.operands[1], none}, ctx.op.attrs);
  }
  if (ctx.needs[2]) result[2] = gradient_of_source(ctx, 2);
  return result;
}

std::vector<ValueId> scatter_add(const RuleContext& ctx) {
  std::vector<ValueId> result(3);
  if (ctx.needs[0]) result[0] = grad(ctx);
  if (ctx.needs[2]) result[2] = gradient_of_source(ctx, 2);
  return result;
}

std::vector<ValueId> index_select(const RuleContext& ctx) {
  return {
      ctx.b.add1(OpKind::kIndexAdd, {zeros(ctx, operand_type(ctx, 0)), ctx.op.operands[1], grad(ctx)}, ctx.op.attrs),
      ValueId()};
}

std::vector<ValueId> index_add(const RuleContext& ctx) {
  std::vector<ValueId> result(3);
  if (ctx.needs[0]) result[0] = grad(ctx);
  if (ctx.needs[2]) result[2] = ctx.b.add1(OpKind::kIndexSelect, {grad(ctx), ctx.op.operands[1]}, ctx.op.attrs);
  return result;
}

std::vector<ValueId> cat(const RuleContext& ctx) {
  const int64_t dim = std::get<ir::DimAttrs>(ctx.op.attrs).dim;
  std::vector<ValueId> result(ctx.op.operands.size());
  int64_t start = 0;
  for (size_t i = 0; i < result.size(); ++i) {
    const int64_t end = start + operand_type(ctx, i).shape[static_cast<size_t>(dim)];
    if (ctx.needs[i]) result[i] = ctx.b.slice(grad(ctx), dim, start, end);
    start = end;
  }
  return result;
}

// Padding is cut off by slices, which are views; only an axis that was cropped needs values of its own.
std::vector<ValueId> pad(const RuleContext& ctx) {
  const auto& attrs = std::get<ir::PadAttrs>(ctx.op.attrs);
  const std::vector<int64_t> shape = operand_type(ctx, 0).shape;
  ir::PadAttrs back{attrs.low, attrs.high, 0.0};
  ValueId result = grad(ctx);
  for (size_t i = 0; i < attrs.low.size(); ++i) {
    const int64_t low = std::max<int64_t>(attrs.low[i], 0), high = std::max<int64_t>(attrs.high[i], 0);
    const int64_t extent = ctx.b.type(result).shape[i];
    result = ctx.b.slice(result, static_cast<int64_t>(i), low, extent - high);
    back.low[i] = low - attrs.low[i];
    back.high[i] = high - attrs.high[i];
  }
  if (ctx.b.type(result).shape == shape) return {result};
  return {ctx.b.add1(OpKind::kPad, {result}, back)};
}

}  // namespace piper::autodiff::rules
