// ATen calls that round and are more than an operator of schemas/plan/elementwise.def.
#include <cmath>

#include "compiler/frontend/aten/table.h"

namespace piper::frontend::aten {

// x without its whole part; its gradient is that of x.
Item frac(Call& c) {
  const ValueId x = c.tensor("self");
  if (!is_floating(c.dtype(x))) return c.fail("frac of integers is not supported");
  return made(c.binary(OpKind::kSub, x, c.op(OpKind::kTrunc, {x})));
}

// To so many decimal places: of x times, or by, a power of ten.
Item round_decimals(Call& c) {
  const ValueId x = c.tensor("self");
  if (!is_floating(c.dtype(x))) return c.fail("integers are not rounded to decimals");
  const int64_t decimals = c.integer("decimals");
  if (decimals == 0) return made(c.op(OpKind::kRound, {x}));
  const double power = std::pow(10.0, static_cast<double>(std::abs(decimals)));
  const OpKind there = decimals > 0 ? OpKind::kMul : OpKind::kDiv, back = decimals > 0 ? OpKind::kDiv : OpKind::kMul;
  return made(c.binary(back, c.op(OpKind::kRound, {c.binary(there, x, power)}), power));
}

}  // namespace piper::frontend::aten
