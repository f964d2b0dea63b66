// ATen calls that round: no operator of their own, but casts to integers and back, which carry no gradient, as torch's
// do not.
#include "compiler/frontend/aten/table.h"

namespace piper::frontend::aten {
namespace {

// x without its fraction. From 2^23 (f64: 2^52) on there is none, nor a cast that would be safe; NaN goes through.
ValueId truncated(Call& c, ValueId x) {
  x = c.op(OpKind::kDetach, {x});
  const DType t = c.dtype(x);
  const double least_whole = t == DType::kF64 ? 0x1p52 : t == DType::kF32 ? 0x1p23 : 0x1p7;
  const ValueId small = c.binary(OpKind::kLt, c.op(OpKind::kAbs, {x}), least_whole);
  const ValueId safe = c.op(OpKind::kWhere, {small, x, c.scalar(0, t)});
  return c.op(OpKind::kWhere, {small, c.cast(c.cast(safe, DType::kI64), t), x});
}
// 1 where the condition holds, else 0.
ValueId as_number(Call& c, ValueId condition, DType t) { return c.cast(condition, t); }

ValueId floored(Call& c, ValueId x) {
  const ValueId whole = truncated(c, x), detached = c.op(OpKind::kDetach, {x});
  return c.binary(OpKind::kSub, whole, as_number(c, c.binary(OpKind::kGt, whole, detached), c.dtype(x)));
}

}  // namespace

Item trunc(Call& c) {
  const ValueId x = c.tensor("self");
  return Item::of_tensor(is_floating(c.dtype(x)) ? truncated(c, x) : x);
}

Item floor(Call& c) {
  const ValueId x = c.tensor("self");
  return Item::of_tensor(is_floating(c.dtype(x)) ? floored(c, x) : x);
}

Item ceil(Call& c) {
  const ValueId x = c.tensor("self");
  if (!is_floating(c.dtype(x))) return Item::of_tensor(x);
  return Item::of_tensor(c.op(OpKind::kNeg, {floored(c, c.op(OpKind::kNeg, {x}))}));
}

// The nearest integer, halves to the even one: whole + (fraction > 1/2, or = 1/2 and whole odd).
Item round(Call& c) {
  const ValueId x = c.tensor("self");
  if (!is_floating(c.dtype(x))) return Item::of_tensor(x);
  const ValueId whole = floored(c, x);
  const ValueId fraction = c.binary(OpKind::kSub, c.op(OpKind::kDetach, {x}), whole);
  const ValueId half_of_whole = c.binary(OpKind::kMul, whole, 0.5);
  const ValueId odd = c.binary(OpKind::kNe, floored(c, half_of_whole), half_of_whole);
  const ValueId tie = c.op(OpKind::kLogicalAnd, {c.binary(OpKind::kEq, fraction, 0.5), odd});
  const ValueId up = c.op(OpKind::kLogicalOr, {c.binary(OpKind::kGt, fraction, 0.5), tie});
  return Item::of_tensor(c.binary(OpKind::kAdd, whole, as_number(c, up, c.dtype(x))));
}

}  // namespace piper::frontend::aten
