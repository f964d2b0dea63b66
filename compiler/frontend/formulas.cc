#include "compiler/frontend/formulas.h"

#include <limits>

namespace piper::frontend {

using ir::OpKind;
using ir::ValueId;

ValueId clamped_inside(ir::GraphBuilder& builder, ValueId x, double low, double high) {
  const DType t = builder.type(x).dtype;
  const ValueId bounded = builder.add1(OpKind::kDetach, {builder.add1(OpKind::kClamp, {x}, ir::ClampAttrs{low, high})});
  if (!builder.status().ok()) return bounded;
  const ValueId below = builder.add1(OpKind::kLe, {x, builder.scalar(low, t)});
  const ValueId above = builder.add1(OpKind::kGe, {x, builder.scalar(high, t)});
  return builder.add1(OpKind::kWhere, {builder.add1(OpKind::kLogicalOr, {below, above}), bounded, x});
}

ValueId hard_swish(ir::GraphBuilder& builder, ValueId x) {
  const DType t = builder.type(x).dtype;
  const ValueId three = builder.scalar(3, t);
  const ValueId curve = builder.add1(
      OpKind::kDiv, {builder.add1(OpKind::kMul, {x, builder.add1(OpKind::kAdd, {x, three})}), builder.scalar(6, t)});
  const ValueId right = builder.add1(OpKind::kWhere, {builder.add1(OpKind::kLt, {x, three}), curve, x});
  const ValueId off = builder.add1(OpKind::kLe, {x, builder.scalar(-3, t)});
  return builder.add1(OpKind::kWhere, {off, builder.scalar(0, t), right});
}

// The square root is taken of 1 where the sum is 0: a gradient of 0 times its derivative there, inf, is no number.
ValueId root_of_squares(ir::GraphBuilder& builder, ValueId squares) {
  const DType t = builder.type(squares).dtype;
  const ValueId none = builder.scalar(0, t);
  const ValueId zero = builder.add1(OpKind::kEq, {squares, none});
  const ValueId safe = builder.add1(OpKind::kWhere, {zero, builder.scalar(1, t), squares});
  return builder.add1(OpKind::kWhere, {zero, none, builder.add1(OpKind::kSqrt, {safe})});
}

// m + log(sum(exp(x - m))) with m = max(x) as a constant for the gradient, which it does not change. Where the greatest
// is infinite m is 0, as in PyTorch: inf - inf is no number.
ValueId log_sum_exp(ir::GraphBuilder& builder, ValueId x, const std::vector<int64_t>& dims, bool keepdim) {
  if (dims.empty()) return x;
  const DType t = builder.type(x).dtype;
  const ValueId top = builder.add1(OpKind::kDetach, {builder.add1(OpKind::kAmax, {x}, ir::ReduceAttrs{dims, true})});
  const ValueId infinity = builder.scalar(std::numeric_limits<double>::infinity(), t);
  const ValueId infinite = builder.add1(OpKind::kEq, {builder.add1(OpKind::kAbs, {top}), infinity});
  const ValueId m = builder.add1(OpKind::kWhere, {infinite, builder.scalar(0, t), top});
  const ValueId powers = builder.add1(OpKind::kExp, {builder.add1(OpKind::kSub, {x, m})});
  const ValueId total = builder.add1(OpKind::kLog, {builder.sum(powers, dims, keepdim)});
  return builder.add1(OpKind::kAdd, {total, builder.reshape(m, builder.type(total).shape)});
}

}  // namespace piper::frontend
