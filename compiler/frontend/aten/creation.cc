// ATen calls that make tensors from numbers.
#include <algorithm>
#include <cmath>

#include "compiler/frontend/aten/table.h"

namespace piper::frontend::aten {
namespace {

DType dtype_of_number(const Item& x) {
  if (x.kind == Item::Kind::kBool) return DType::kBool;
  return x.kind == Item::Kind::kInt ? DType::kI64 : DType::kF32;
}

Item like(Call& c, double value) {
  const ValueId x = c.tensor("self");
  return made(c.filled(c.shape(x), value, c.dtype_or("dtype", c.dtype(x))));
}
Item fresh(Call& c, double value) {
  const ValueId x = c.tensor("self");
  return made(c.filled(c.ints("size"), value, c.dtype_or("dtype", c.dtype(x))));
}

// The number that a tensor is filled with; an integer in a tensor of int64 as it is written.
ValueId fill_value(Call& c, DType dtype) {
  const Item& x = c.arg("fill_value");
  return x.is_number() ? c.as(x, dtype) : c.scalar(c.real("fill_value"), dtype);
}
Item filled(Call& c, std::vector<int64_t> shape, DType dtype) {
  return made(c.expand(fill_value(c, dtype), std::move(shape)));
}

}  // namespace

namespace {

// start + i x step in f64, whose results are then rounded to the type that is asked for.
ValueId on_a_line(Call& c, ValueId i, double start, double step) {
  return c.binary(OpKind::kAdd, c.binary(OpKind::kMul, c.cast(i, DType::kF64), step), start);
}

}  // namespace

Item arange(Call& c) {
  const bool has_start = c.target() != "aten.arange.default";
  const Item zero = Item::of_int(0), one = Item::of_int(1);
  const Item& start = has_start ? c.arg("start") : zero;
  const Item& step = c.target() == "aten.arange.start_step" ? c.arg("step") : one;
  const Item& end = c.arg("end");
  if (!start.is_number() || !end.is_number() || !step.is_number() || step.number() == 0)
    return c.fail("the bounds of a range must be known when the model is bound");
  const bool real =
      start.kind == Item::Kind::kFloat || end.kind == Item::Kind::kFloat || step.kind == Item::Kind::kFloat;
  const DType t = c.dtype_or("dtype", real ? DType::kF32 : DType::kI64);
  const double steps_wanted = std::ceil((end.number() - start.number()) / step.number());
  // Each number fits in 64 bits.
  if (!(std::abs(steps_wanted) < 8e9) || !(std::abs(start.number()) < 1e15) || !(std::abs(step.number()) < 1e9))
    return c.fail("a range of this size");
  const int64_t count = std::max<int64_t>(0, static_cast<int64_t>(steps_wanted));
  const bool varies = start.varies || end.varies || step.varies;
  if (!real) return made(c.range(start.integer, count, step.integer, t, varies));
  return made(c.cast(on_a_line(c, c.range(0, count, 1, DType::kI64, varies), start.number(), step.number()), t));
}

// The second half is counted from the end, and what is of f32 by numbers of f32, rounded once.
Item linspace(Call& c) {
  const DType t = c.dtype_or("dtype", DType::kF32);
  const auto rounded = [&](double v) { return t == DType::kF32 ? static_cast<double>(static_cast<float>(v)) : v; };
  const double start = rounded(c.real("start")), end = rounded(c.real("end"));
  const int64_t steps = c.integer("steps"), first = steps == 1 ? 1 : steps / 2;
  const double step = steps > 1 ? rounded((end - start) / static_cast<double>(steps - 1)) : 0;
  const ValueId from_start = on_a_line(c, c.range(0, first, 1, DType::kI64), start, step),
                from_end = on_a_line(c, c.range(steps - 1 - first, steps - first, -1, DType::kI64), end, -step);
  return made(c.cast(c.cat({from_start, from_end}, 0), t));
}

Item eye(Call& c) {
  const int64_t rows = c.integer("n"), columns = c.target() == "aten.eye.m" ? c.integer("m") : rows;
  const ValueId row = c.unsqueeze(c.range(0, rows, 1, DType::kI64), 1),
                column = c.unsqueeze(c.range(0, columns, 1, DType::kI64), 0);
  return made(c.cast(c.binary(OpKind::kEq, row, column), c.dtype_or("dtype", DType::kF32)));
}

Item zeros(Call& c) { return made(c.filled(c.ints("size"), 0, c.dtype_or("dtype", DType::kF32))); }
Item ones(Call& c) { return made(c.filled(c.ints("size"), 1, c.dtype_or("dtype", DType::kF32))); }
Item full(Call& c) { return filled(c, c.ints("size"), c.dtype_or("dtype", dtype_of_number(c.arg("fill_value")))); }
Item scalar_tensor(Call& c) { return made(fill_value(c, c.dtype_or("dtype", DType::kF32))); }
Item zeros_like(Call& c) { return like(c, 0); }
Item ones_like(Call& c) { return like(c, 1); }
Item full_like(Call& c) {
  const ValueId x = c.tensor("self");
  return filled(c, c.shape(x), c.dtype_or("dtype", c.dtype(x)));
}
Item new_zeros(Call& c) { return fresh(c, 0); }
Item new_ones(Call& c) { return fresh(c, 1); }
Item new_full(Call& c) { return filled(c, c.ints("size"), c.dtype_or("dtype", c.dtype(c.tensor("self")))); }

Item fill(Call& c) {
  const ValueId x = c.tensor("self");
  return made(c.expand(c.as(c.arg("value"), c.dtype(x)), c.shape(x)));
}
Item copy(Call& c) {
  const ValueId x = c.tensor("self");
  return made(c.expand(c.cast(c.tensor("src"), c.dtype(x)), c.shape(x)));
}

Item one_hot(Call& c) {
  const ValueId x = c.tensor("self");
  const int64_t n = c.integer("num_classes");
  if (n < 1) return c.fail("one_hot needs num_classes: without it the shape depends on the data");
  return made(c.cast(c.binary(OpKind::kEq, c.unsqueeze(x, -1), c.range(0, n, 1, DType::kI64)), DType::kI64));
}

Item random(Call& c) {
  return c.refuse(
      "P0321", "'" + c.target() + "' draws random numbers that no seed of the step fixes; only dropout is supported");
}

// How many elements the result has depends on the data.
Item shaped_by_data(Call& c) {
  return c.refuse("P0323", "the shape that '" + c.target() + "' makes depends on the data");
}

}  // namespace piper::frontend::aten
