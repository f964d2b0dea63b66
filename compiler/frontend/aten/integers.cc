// ATen calls on integers that no floating-point operator computes: powers, shifts, complements.
#include "compiler/frontend/aten/integers.h"

#include <algorithm>

#include "compiler/frontend/aten/table.h"

namespace piper::frontend::aten {
namespace {

int64_t bits_of(DType t) { return t == DType::kI32 ? 32 : 64; }

// Operands of a shift in the type of its result; an invalid id, and a failure, where it is none of integers.
struct Shift {
  ValueId x, by;
  ValueId outside;  // by < 0 or by >= bits
};
Shift shift_of(Call& c) {
  const Item &x = c.arg("self"), &by = c.arg("other");
  const DType t = promoted(c.graph(), {&x, &by});
  if (is_floating(t)) {
    c.fail("a shift of numbers that are no integers");
    return {};
  }
  const DType integers = t == DType::kBool ? DType::kI64 : t;
  const ValueId count = c.as(by, integers);
  const ValueId below = c.binary(OpKind::kLt, count, 0),
                above = c.binary(OpKind::kGe, count, static_cast<double>(bits_of(integers)));
  return {c.as(x, integers), count, c.op(OpKind::kLogicalOr, {below, above})};
}

}  // namespace

ValueId integer_power(Call& c, ValueId base, int64_t exponent) {
  ValueId square = c.dtype(base) == DType::kBool ? c.cast(base, DType::kI64) : base, power;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) power = power.valid() ? c.binary(OpKind::kMul, power, square) : square;
    if (exponent > 1) square = c.binary(OpKind::kMul, square, square);
  }
  return power.valid() ? power : c.filled(c.shape(base), 1, c.dtype(square));
}

ValueId integer_power(Call& c, ValueId base, ValueId exponent) {
  constexpr int kBits = 6;  // of exponents up to 63
  const DType t = c.dtype(base) == DType::kBool ? DType::kI64 : c.dtype(base);
  base = c.cast(base, t);
  exponent = c.cast(exponent, t);
  const ValueId one = c.scalar(1, t);
  ValueId square = base, rest = exponent, power;
  for (int bit = 0; bit < kBits; ++bit) {
    const ValueId half = c.binary(OpKind::kDiv, rest, 2);  // rounds down
    const ValueId odd = c.binary(OpKind::kNe, c.binary(OpKind::kMul, half, 2), rest);
    const ValueId factor = c.op(OpKind::kWhere, {odd, square, one});
    power = bit == 0 ? factor : c.binary(OpKind::kMul, power, factor);
    if (bit + 1 < kBits) square = c.binary(OpKind::kMul, square, square);
    rest = half;
  }
  const ValueId beyond = c.op(OpKind::kLogicalOr, {c.binary(OpKind::kLt, exponent, 0),
                                                   c.binary(OpKind::kGe, exponent, static_cast<double>(1 << kBits))});
  const ValueId grows = c.binary(OpKind::kNe, c.binary(OpKind::kMul, base, base), 1);
  return c.op(OpKind::kWhere, {c.op(OpKind::kLogicalAnd, {beyond, grows}), c.scalar(0, t), power});
}

Item shift_left(Call& c) {
  const Shift s = shift_of(c);
  if (!c.status().ok()) return made(c.scalar(0, DType::kI64));
  const DType t = c.dtype(s.x);
  const ValueId shifted = c.binary(OpKind::kMul, s.x, integer_power(c, c.scalar(2, t), s.by));
  return made(c.op(OpKind::kWhere, {s.outside, c.scalar(0, t), shifted}));
}

// Rounds down; what is shifted out of the word leaves its sign.
Item shift_right(Call& c) {
  const Shift s = shift_of(c);
  if (!c.status().ok()) return made(c.scalar(0, DType::kI64));
  const DType t = c.dtype(s.x);
  const double most = static_cast<double>(bits_of(t) - 2);  // the last power of two that is positive
  const ValueId all = c.op(OpKind::kLogicalOr, {s.outside, c.binary(OpKind::kGt, s.by, most)});
  const ValueId by = c.op(OpKind::kWhere, {all, c.scalar(0, t), s.by});
  const ValueId quotient = c.binary(OpKind::kDiv, s.x, integer_power(c, c.scalar(2, t), by));
  const ValueId sign = c.op(OpKind::kWhere, {c.binary(OpKind::kLt, s.x, 0), c.scalar(-1, t), c.scalar(0, t)});
  return made(c.op(OpKind::kWhere, {all, sign, quotient}));
}

Item bitwise_not(Call& c) {
  const ValueId x = c.tensor("self");
  if (c.dtype(x) == DType::kBool) return made(c.op(OpKind::kLogicalNot, {x}));
  if (is_floating(c.dtype(x))) return c.fail("bits of numbers that are no integers");
  return made(c.binary(OpKind::kSub, Item::of_int(-1), made(x)));
}

}  // namespace piper::frontend::aten
