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

}  // namespace piper::frontend
