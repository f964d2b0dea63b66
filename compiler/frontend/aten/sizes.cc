// Calls on sizes: numbers that are known once the model's symbols are bound.
#include <algorithm>
#include <cmath>

#include "compiler/frontend/aten/dims.h"
#include "compiler/frontend/aten/table.h"

namespace piper::frontend::aten {

Item sym_size(Call& c) {
  const ValueId x = c.tensor("self");
  return Item::of_int(c.extent(x, c.dim("dim", c.shape(x).size())));
}
Item sym_numel(Call& c) { return Item::of_int(c.type(c.tensor("self")).elements()); }

// A number that a tensor holds, where it is known.
Item number_of(Call& c) {
  const ValueId x = c.tensor("self");
  std::vector<int64_t> known;
  if (c.known_ints(x, known) && known.size() == 1) return Item::of_int(known[0]);
  if (c.dtype(x) == DType::kF32 && c.known(x)) return Item::of_float(c.real("self"));
  return c.refuse("P0323", "a number of Python that depends on the data");
}

Item number_cast(Call& c) {
  const Item& a = c.arg("a");
  if (!a.is_number()) return c.fail("the operand must be a size");
  if (c.target() == "sym_float") return Item::of_float(a.number());
  if (c.target() == "sym_int")
    return std::abs(a.number()) < 1e15 ? Item::of_int(static_cast<int64_t>(a.number())) : c.fail("a size is too large");
  if (c.target() == "sym_not") return Item::of_bool(a.number() == 0);
  if (a.kind == Item::Kind::kFloat) return Item::of_float(-a.real);
  int64_t negated = 0;
  return __builtin_sub_overflow(0, a.integer, &negated) ? c.fail("a size is too large") : Item::of_int(negated);
}

Item number_op(Call& c) {
  const Item &a = c.arg("a"), &b = c.arg("b");
  if (!a.is_number() || !b.is_number()) return c.fail("the operands must be sizes");
  const double x = a.number(), y = b.number();
  const bool real = a.kind == Item::Kind::kFloat || b.kind == Item::Kind::kFloat;
  const int64_t i = a.kind == Item::Kind::kBool ? a.flag : a.integer,
                j = b.kind == Item::Kind::kBool ? b.flag : b.integer;
  const std::string& t = c.target();
  if (t == "operator.eq") return Item::of_bool(x == y);
  if (t == "operator.ne") return Item::of_bool(x != y);
  if (t == "operator.lt") return Item::of_bool(x < y);
  if (t == "operator.le") return Item::of_bool(x <= y);
  if (t == "operator.gt") return Item::of_bool(x > y);
  if (t == "operator.ge") return Item::of_bool(x >= y);
  if ((c.kind() == OpKind::kDiv) && y == 0) return c.fail("a size is divided by zero");
  if (t == "operator.truediv") return Item::of_float(x / y);
  if (real) {
    if (t == "operator.add") return Item::of_float(x + y);
    if (t == "operator.sub") return Item::of_float(x - y);
    if (t == "operator.mul") return Item::of_float(x * y);
    if (t == "operator.floordiv") return Item::of_float(std::floor(x / y));
    if (t == "operator.mod") return Item::of_float(x - std::floor(x / y) * y);
    if (t == "operator.pow") return Item::of_float(std::pow(x, y));
    return Item::of_float(t == "sym_max" ? std::fmax(x, y) : std::fmin(x, y));
  }
  int64_t out = 0;
  bool overflow = false;
  if (t == "operator.add") overflow = __builtin_add_overflow(i, j, &out);
  if (t == "operator.sub") overflow = __builtin_sub_overflow(i, j, &out);
  if (t == "operator.mul") overflow = __builtin_mul_overflow(i, j, &out);
  constexpr int64_t kMost = int64_t{1} << 61;
  if (overflow || (c.kind() == OpKind::kDiv && (std::max(i, j) > kMost || std::min(i, j) < -kMost)))
    return c.fail("a size is too large");
  if (t == "operator.add" || t == "operator.sub" || t == "operator.mul") return Item::of_int(out);
  if (t == "operator.floordiv") return Item::of_int(floor_div(i, j));
  if (t == "operator.mod") return Item::of_int(i - floor_div(i, j) * j);
  if (t == "operator.pow") {
    const double power = std::pow(x, y);
    return std::abs(power) < 1e15 ? Item::of_int(static_cast<int64_t>(std::llround(power)))
                                  : c.fail("a size is too large");
  }
  return Item::of_int(t == "sym_max" ? std::max(i, j) : std::min(i, j));
}

}  // namespace piper::frontend::aten
