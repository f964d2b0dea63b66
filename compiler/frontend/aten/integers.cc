// ATen calls on integers that no floating-point operator computes: powers, shifts, bits.
#include "compiler/frontend/aten/integers.h"

#include <cmath>

#include "compiler/frontend/aten/table.h"

namespace piper::frontend::aten {
namespace {

constexpr int64_t kMostMask = (int64_t{1} << 52) - 1;  // exact as a double, with one added

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

// x & mask: each run of ones of a mask that is not negative is a quotient's remainder; of a negative one x - (x &
// ~mask).
ValueId bits_in(Call& c, ValueId x, int64_t mask) {
  if (mask < 0) return c.binary(OpKind::kSub, x, bits_in(c, x, ~mask));
  ValueId sum = c.binary(OpKind::kMul, x, 0);
  for (int64_t low = 0; mask >> low != 0; ++low) {
    if ((mask >> low & 1) == 0) continue;
    int64_t high = low;
    while ((mask >> high & 1) != 0) ++high;
    const double unit = std::ldexp(1, static_cast<int>(low)), run = std::ldexp(1, static_cast<int>(high - low));
    const ValueId shifted = c.binary(OpKind::kDiv, x, unit);  // rounds down
    const ValueId above = c.binary(OpKind::kMul, c.binary(OpKind::kDiv, shifted, run), run);
    sum = c.binary(OpKind::kAdd, sum, c.binary(OpKind::kMul, c.binary(OpKind::kSub, shifted, above), unit));
    low = high;
  }
  return sum;
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

// Bits of bools, or of integers and one number: x | m = x + m - (x & m), and xor takes the common bits away twice.
Item bitwise(Call& c) {
  const Item &a = c.arg("self"), &b = c.arg("other");
  const DType t = promoted(c.graph(), {&a, &b});
  if (t == DType::kBool) return made(c.op(c.kind(), {c.as(a, t), c.as(b, t)}));
  if (is_floating(t)) return c.fail("bits of numbers that are no integers");
  const bool one = b.is_number() || (b.is_tensor() && c.rank(b.tensor) == 0 && c.known(b.tensor));
  if (!one) return c.fail("bits of two tensors of integers");
  const int64_t mask = c.integer("other");
  if (mask > kMostMask || mask < -kMostMask) return c.fail("bits beyond 52");
  const ValueId x = c.as(a, t), common = bits_in(c, x, mask);
  if (c.kind() == OpKind::kLogicalAnd) return made(common);
  const ValueId both = c.binary(OpKind::kAdd, made(x), Item::of_int(mask));
  const ValueId once = c.binary(OpKind::kSub, both, common);
  return made(c.kind() == OpKind::kLogicalOr ? once : c.binary(OpKind::kSub, once, common));
}

Item bitwise_not(Call& c) {
  const ValueId x = c.tensor("self");
  if (c.dtype(x) == DType::kBool) return made(c.op(OpKind::kLogicalNot, {x}));
  if (is_floating(c.dtype(x))) return c.fail("bits of numbers that are no integers");
  return made(c.binary(OpKind::kSub, Item::of_int(-1), made(x)));
}

}  // namespace piper::frontend::aten
