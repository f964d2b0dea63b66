#include "compiler/frontend/formulas.h"

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

}  // namespace piper::frontend
