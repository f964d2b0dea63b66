// ATen calls that reduce or scan axes.
#include <cmath>

#include "compiler/frontend/aten/table.h"
#include "compiler/frontend/formulas.h"

namespace piper::frontend::aten {
namespace {

// The operand in the dtype that the call asks for; sums of integers and bools are int64.
ValueId summand(Call& c) {
  const ValueId x = c.tensor("self");
  return c.cast(x, c.dtype_or("dtype", is_floating(c.dtype(x)) ? c.dtype(x) : DType::kI64));
}
ValueId averaged(Call& c) {
  const ValueId x = c.tensor("self");
  return c.cast(x, c.dtype_or("dtype", c.dtype(x)));
}
ValueId greatest(Call& c, ValueId x, const std::vector<int64_t>& dims, bool keepdim) {
  return dims.empty() ? x : c.op(OpKind::kAmax, {x}, ir::ReduceAttrs{dims, keepdim});
}
ValueId negated(Call& c, ValueId x) { return c.op(OpKind::kNeg, {x}); }
int64_t count_of(Call& c, ValueId x, const std::vector<int64_t>& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= c.extent(x, d);
  return n;
}

// values, indices along one axis of the greatest (sign 1) or least (-1) element.
std::vector<ValueId> extreme(Call& c, ValueId x, int64_t d, bool keepdim, bool least) {
  if (c.rank(x) == 0) return {x, c.scalar(0, DType::kI64)};
  const std::vector<ValueId> found = c.ops(OpKind::kMaxDim, {least ? negated(c, x) : x}, ir::TopkAttrs{d, 1});
  if (found.size() != 2) return {x, x};
  ValueId value = least ? negated(c, found[0]) : found[0], index = found[1];
  if (!keepdim) {
    value = c.squeeze(value, d);
    index = c.squeeze(index, d);
  }
  return {value, index};
}
Item extreme_call(Call& c, bool least) {
  const ValueId x = c.tensor("self");
  const std::vector<ValueId> r = extreme(c, x, c.dim("dim", c.shape(x).size()), c.flag("keepdim"), least);
  return Item::of_list({made(r[0]), made(r[1])});
}

// any = some element is not 0; all = no element is 0 (kind kEq: counts the zeros).
Item counted(Call& c, const std::vector<int64_t>& dims, bool keepdim) {
  ValueId x = c.cast(c.tensor("self"), DType::kBool);
  const bool all = c.kind() == OpKind::kEq;
  if (all) x = c.op(OpKind::kLogicalNot, {x});
  const ValueId n = c.sum(c.cast(x, DType::kI64), dims, keepdim);
  return made(c.binary(c.kind(), n, 0));
}

}  // namespace

Item sum_all(Call& c) {
  const ValueId x = summand(c);
  return made(c.sum(x, c.all_dims(x), false));
}
Item sum(Call& c) {
  const ValueId x = summand(c);
  return made(c.sum(x, c.dims("dim", c.shape(x).size()), c.flag("keepdim")));
}
Item mean_all(Call& c) {
  const ValueId x = averaged(c);
  return made(c.mean(x, c.all_dims(x), false));
}
Item mean(Call& c) {
  const ValueId x = averaged(c);
  return made(c.mean(x, c.dims("dim", c.shape(x).size()), c.flag("keepdim")));
}

Item amax(Call& c) {
  const ValueId x = c.tensor("self");
  return made(greatest(c, x, c.dims("dim", c.shape(x).size()), c.flag("keepdim")));
}
Item amin(Call& c) {
  const ValueId x = c.tensor("self");
  return made(negated(c, greatest(c, negated(c, x), c.dims("dim", c.shape(x).size()), c.flag("keepdim"))));
}
Item max_all(Call& c) {
  const ValueId x = c.tensor("self");
  return made(greatest(c, x, c.all_dims(x), false));
}
Item min_all(Call& c) {
  const ValueId x = c.tensor("self");
  return made(negated(c, greatest(c, negated(c, x), c.all_dims(x), false)));
}
Item max_dim(Call& c) { return extreme_call(c, false); }
Item min_dim(Call& c) { return extreme_call(c, true); }
Item argmax(Call& c) {
  ValueId x = c.tensor("self");
  if (!c.has("dim")) return made(extreme(c, c.reshape(x, {-1}), 0, false, false)[1]);
  return made(extreme(c, x, c.dim("dim", c.shape(x).size()), c.flag("keepdim"), false)[1]);
}

Item argmin(Call& c) {
  ValueId x = c.tensor("self");
  if (!c.has("dim")) return made(extreme(c, c.reshape(x, {-1}), 0, false, true)[1]);
  return made(extreme(c, x, c.dim("dim", c.shape(x).size()), c.flag("keepdim"), true)[1]);
}

namespace {
// Values and indices, the least first: a NaN after all numbers, equal elements in their order. The greatest first of
// the negated elements has the NaN before them, so all places are turned by how many there are.
std::vector<ValueId> ascending(Call& c, ValueId x, int64_t d) {
  const int64_t n = c.extent(x, d);
  std::vector<ValueId> found = c.ops(OpKind::kTopk, {negated(c, x)}, ir::TopkAttrs{d, n});
  if (found.size() != 2) return found;
  found[0] = negated(c, found[0]);
  if (!is_floating(c.dtype(x))) return found;
  const ValueId nans = c.sum(c.cast(c.op(OpKind::kIsNan, {x}), DType::kI64), {d}, true);
  Extents row(c.shape(x).size(), 1);
  row[static_cast<size_t>(d)] = n;
  const ValueId after = c.binary(OpKind::kAdd, c.reshape(c.range(0, n, 1, DType::kI64), std::move(row)), nans);
  const ValueId over = c.binary(OpKind::kGe, after, static_cast<double>(n));
  const ValueId turned =
      c.expand(c.op(OpKind::kWhere, {over, c.binary(OpKind::kSub, after, static_cast<double>(n)), after}), c.shape(x));
  for (ValueId& v : found) v = c.op(OpKind::kGather, {v, turned}, ir::DimAttrs{d});
  return found;
}
}  // namespace

Item topk(Call& c) {
  const ValueId x = c.tensor("self");
  if (c.rank(x) == 0 && c.integer("k") == 1) return Item::of_list({made(x), made(c.scalar(0, DType::kI64))});
  const int64_t d = c.dim("dim", c.shape(x).size());
  const int64_t k = c.integer("k");
  const bool largest = c.flag("largest");
  if (k < 0 || k > c.extent(x, d)) return c.fail("topk of more elements than the axis has");
  std::vector<ValueId> found = largest ? c.ops(OpKind::kTopk, {x}, ir::TopkAttrs{d, k}) : ascending(c, x, d);
  if (found.size() != 2) return c.fail("topk does not fit");
  for (ValueId& v : found)
    if (!largest) v = c.slice(v, d, 0, k);
  return Item::of_list({made(found[0]), made(found[1])});
}
Item sort(Call& c) {
  const ValueId x = c.tensor("self");
  if (c.rank(x) == 0) return Item::of_list({made(x), made(c.scalar(0, DType::kI64))});
  const int64_t d = c.dim("dim", c.shape(x).size());
  const bool down = c.flag("descending");
  const std::vector<ValueId> found =
      down ? c.ops(OpKind::kTopk, {x}, ir::TopkAttrs{d, c.extent(x, d)}) : ascending(c, x, d);
  if (found.size() != 2) return c.fail("sort does not fit");
  return Item::of_list({made(found[0]), made(found[1])});
}
Item argsort(Call& c) {
  const Item both = sort(c);
  return both.list.size() == 2 ? both.list[1] : both;
}
Item cumsum(Call& c) {
  const ValueId x = summand(c);
  if (c.rank(x) == 0) return made(x);
  return made(c.op(OpKind::kCumsum, {x}, ir::DimAttrs{c.dim("dim", c.shape(x).size())}));
}

Item product_of_all(Call& c) {
  const ValueId x = summand(c);
  return made(product_of_elements(c.builder(), x, c.all_dims(x), false));
}
Item product_of_axis(Call& c) {
  const ValueId x = summand(c);
  if (c.rank(x) == 0) return made(x);
  return made(product_of_elements(c.builder(), x, {c.dim("dim", c.shape(x).size())}, c.flag("keepdim")));
}
Item cumprod(Call& c) {
  const ValueId x = summand(c);
  return made(c.rank(x) == 0 ? x : products_so_far(c.builder(), x, c.dim("dim", c.shape(x).size())));
}

// After step i each element has those of the 2^i that end there.
Item logcumsumexp(Call& c) {
  ValueId x = c.tensor("self");
  if (c.rank(x) == 0) return made(x);
  const int64_t d = c.dim("dim", c.shape(x).size()), n = c.extent(x, d);
  for (int64_t by = 1; by < n; by *= 2) {
    const ValueId sums = c.op(OpKind::kLogaddexp, {c.slice(x, d, 0, n - by), c.slice(x, d, by, n)});
    x = c.cat({c.slice(x, d, 0, by), sums}, d);
  }
  return made(x);
}

// Differences of neighbours along an axis, n times over, after `prepend` and `append` have been joined.
Item diff(Call& c) {
  ValueId x = c.tensor("self");
  if (c.rank(x) == 0) return c.fail("diff of a scalar");
  const int64_t d = c.dim("dim", c.shape(x).size());
  std::vector<ValueId> parts = {x};
  if (c.has("prepend")) parts.insert(parts.begin(), c.tensor("prepend"));
  if (c.has("append")) parts.push_back(c.tensor("append"));
  x = c.cat(std::move(parts), d);
  const OpKind kind = c.dtype(x) == DType::kBool ? OpKind::kNe : OpKind::kSub;
  for (int64_t n = c.integer("n"); n > 0 && c.extent(x, d) > 0; --n)
    x = c.binary(kind, c.slice(x, d, 1, c.extent(x, d)), c.slice(x, d, 0, c.extent(x, d) - 1));
  return made(x);
}

// sum((x - mean)^2) / (n - correction)
Item variance(Call& c) {
  const ValueId x = c.tensor("self");
  const std::vector<int64_t> dims = c.dims("dim", c.shape(x).size());
  const bool worded = c.target().find(".correction") == std::string::npos && c.target().rfind("prims.", 0) != 0;
  const double correction = worded ? (c.flag("unbiased") ? 1 : 0) : c.has("correction") ? c.real("correction") : 1;
  const double n = static_cast<double>(count_of(c, x, dims));
  if (n - correction <= 0) return c.fail("the variance of too few elements");
  const ValueId centred = c.binary(OpKind::kSub, x, c.mean(x, dims, true));
  const ValueId total = c.sum(c.binary(OpKind::kMul, centred, centred), dims, c.flag("keepdim"));
  const ValueId var = c.binary(OpKind::kDiv, total, n - correction);
  return made(c.kind() == OpKind::kSqrt ? root_of_squares(c.builder(), var) : var);
}
Item variance_and_mean(Call& c) {
  const ValueId x = c.tensor("self");
  const Item first = variance(c);
  return Item::of_list({first, made(c.mean(x, c.dims("dim", c.shape(x).size()), c.flag("keepdim")))});
}

Item logsumexp(Call& c) {
  ValueId x = c.tensor("self");
  if (!is_floating(c.dtype(x))) x = c.cast(x, DType::kF32);
  return made(log_sum_exp(c.builder(), x, c.dims("dim", c.shape(x).size()), c.flag("keepdim")));
}

Item vector_norm(Call& c) {
  const ValueId x = averaged(c);
  const std::vector<int64_t> dims = c.dims("dim", c.shape(x).size());
  const double order = c.real("ord");
  if (order == 1) return made(c.sum(c.op(OpKind::kAbs, {x}), dims, c.flag("keepdim")));
  if (order == 2)
    return made(root_of_squares(c.builder(), c.sum(c.binary(OpKind::kMul, x, x), dims, c.flag("keepdim"))));
  if (order < 1 && order != 0 && !std::isinf(order))
    return c.fail("a vector norm is supported with ord 0, 1 and above, inf and -inf");
  return made(norm_of_order(c.builder(), x, order, dims, c.flag("keepdim")));
}

Item any_of(Call& c) { return counted(c, c.all_dims(c.tensor("self")), false); }
Item any_of_dim(Call& c) {
  const ValueId x = c.tensor("self");
  return counted(c, {c.dim("dim", c.shape(x).size())}, c.flag("keepdim"));
}

namespace {
// What a cast was made from; x itself where it is none.
ValueId before_cast(Call& c, ValueId x) {
  const ir::Value& value = c.graph().value(x);
  if (value.kind != ir::ValueKind::kOpResult || c.graph().op(value.producer).kind != OpKind::kCast) return x;
  return c.graph().op(value.producer).operands[0];
}
}  // namespace

// Counts per bin. An element's bin is floor((x - min) * bins / (max - min)), rounded as PyTorch rounds it; the last bin
// has its upper edge, too.
Item histc(Call& c) {
  const ValueId x = c.tensor("self");
  const int64_t bins = c.integer("bins");
  const double low = c.real("min"), high = c.real("max");
  if (bins < 1 || high <= low)
    return c.fail("histc is supported with min < max: otherwise the bins depend on the data");
  const DType t = c.dtype(x);
  // Integers with one bin for each.
  if (const ValueId whole = before_cast(c, x);
      !is_floating(c.dtype(whole)) && low == std::floor(low) && high - low + 1 == static_cast<double>(bins)) {
    const ValueId numbers = c.range(whole_number(low), bins, 1, c.dtype(whole));
    const ValueId same = c.op(OpKind::kEq, {c.unsqueeze(c.reshape(whole, {-1}), 1), numbers});
    return made(c.sum(c.cast(same, t), {0}, false));
  }
  const ValueId flat = c.reshape(x, {-1});
  const ValueId from = c.scalar(low, t), to = c.scalar(high, t);
  const ValueId scaled = c.binary(OpKind::kMul, c.binary(OpKind::kSub, flat, from), static_cast<double>(bins));
  const ValueId place = c.op(OpKind::kFloor, {c.binary(OpKind::kDiv, scaled, c.binary(OpKind::kSub, to, from))});
  const ValueId bin = c.binary(OpKind::kMinimum, place, static_cast<double>(bins - 1));
  const ValueId counted =
      c.op(OpKind::kLogicalAnd, {c.binary(OpKind::kGe, flat, from), c.binary(OpKind::kLe, flat, to)});
  const ValueId numbers = c.cast(c.range(0, bins, 1, DType::kI64), t);
  const ValueId inside =
      c.op(OpKind::kLogicalAnd, {c.op(OpKind::kEq, {c.unsqueeze(bin, 1), numbers}), c.unsqueeze(counted, 1)});
  return made(c.sum(c.cast(inside, t), {0}, false));
}

}  // namespace piper::frontend::aten
