// ATen calls that choose elements by their place in the order of an axis: medians, modes, the k-th smallest. Which of
// equal elements is chosen, and has the gradient, PyTorch leaves open; here it is the last in the order of topk.
#include <algorithm>
#include <limits>

#include "compiler/frontend/aten/table.h"

namespace piper::frontend::aten {
namespace {

// Values and indices of the elements at `place` (i64, with extent 1 along d) of x sorted along d, the greatest first.
// A NaN is greater than any.
Item chosen(Call& c, ValueId x, int64_t d, ValueId place, bool keepdim) {
  const std::vector<ValueId> sorted = c.ops(OpKind::kTopk, {x}, ir::TopkAttrs{d, c.extent(x, d)});
  if (sorted.size() != 2) return c.fail("the axis does not fit");
  std::vector<Item> out;
  for (const ValueId all : sorted) {
    const ValueId one = c.op(OpKind::kGather, {all, place}, ir::DimAttrs{d});
    out.push_back(made(keepdim ? one : c.squeeze(one, d)));
  }
  return Item::of_list(std::move(out));
}

// Where the lower median is in that order: NaN if there is one, or of the numbers alone.
ValueId middle(Call& c, ValueId x, int64_t d, bool of_numbers) {
  const int64_t n = c.extent(x, d);
  const ValueId nans = c.sum(c.cast(c.op(OpKind::kIsNan, {x}), DType::kI64), {d}, true);
  std::vector<int64_t> place;  // by the number of NaN: after the greater half of what is counted
  for (int64_t k = 0; k <= n; ++k) place.push_back(of_numbers ? std::min(n - 1, k + (n - k) / 2) : k == 0 ? n / 2 : 0);
  const ValueId table = c.builder().constant_i64({n + 1}, place);
  return c.reshape(c.op(OpKind::kIndexSelect, {table, c.reshape(nans, {-1})}, ir::DimAttrs{0}), c.shape(nans));
}

Item middle_call(Call& c, bool of_numbers) {
  const ValueId x = c.tensor("self");
  if (c.rank(x) == 0) return Item::of_list({made(x), made(c.scalar(0, DType::kI64))});
  const int64_t d = c.dim("dim", c.shape(x).size());
  if (c.extent(x, d) == 0) return c.fail("the median of no elements");
  return chosen(c, x, d, middle(c, x, d, of_numbers), c.flag("keepdim"));
}

// The median of all elements: those that equal it share the gradient.
Item middle_of_all(Call& c, bool of_numbers) {
  const ValueId x = c.reshape(c.tensor("self"), {-1});
  if (!is_floating(c.dtype(x)) || c.extent(x, 0) == 0) return c.fail("the median of integers, or of no elements");
  const ValueId found = c.op(OpKind::kDetach, {chosen(c, x, 0, middle(c, x, 0, of_numbers), true).list[0].tensor});
  const ValueId both_nan = c.op(OpKind::kLogicalAnd, {c.op(OpKind::kIsNan, {x}), c.op(OpKind::kIsNan, {found})});
  const ValueId same = c.op(OpKind::kLogicalOr, {c.binary(OpKind::kEq, x, found), both_nan});
  const ValueId total = c.sum(c.op(OpKind::kWhere, {same, x, c.scalar(0, c.dtype(x))}), {0}, false);
  return made(c.binary(OpKind::kDiv, total, c.sum(c.cast(same, c.dtype(x)), {0}, false)));
}

}  // namespace

Item kthvalue(Call& c) {
  const ValueId x = c.tensor("self");
  if (c.rank(x) == 0) return Item::of_list({made(x), made(c.scalar(0, DType::kI64))});
  const int64_t d = c.dim("dim", c.shape(x).size()), n = c.extent(x, d), k = c.integer("k");
  if (k < 1 || k > n) return c.fail("kthvalue of another k than 1 to the extent of the axis");
  Extents one = c.shape(x);
  one[static_cast<size_t>(d)] = 1;
  return chosen(c, x, d, c.expand(c.scalar_i64(n - k), std::move(one)), c.flag("keepdim"));
}

Item median_of_axis(Call& c) { return middle_call(c, false); }
Item nanmedian_of_axis(Call& c) { return middle_call(c, true); }
Item median_of_all(Call& c) { return middle_of_all(c, false); }
Item nanmedian_of_all(Call& c) { return middle_of_all(c, true); }

// The least of the most frequent elements: each is compared with each.
Item mode(Call& c) {
  const ValueId x = c.tensor("self");
  if (c.rank(x) == 0) return Item::of_list({made(x), made(c.scalar(0, DType::kI64))});
  const int64_t d = c.dim("dim", c.shape(x).size());
  if (!is_floating(c.dtype(x)) || c.extent(x, d) == 0) return c.fail("the mode of integers, or of no elements");
  const ValueId same = c.binary(OpKind::kEq, c.unsqueeze(x, d), c.unsqueeze(x, d + 1));
  const ValueId times = c.sum(c.cast(same, DType::kF32), {d}, false);
  const ValueId most = c.op(OpKind::kAmax, {times}, ir::ReduceAttrs{{d}, true});
  const ValueId least_first =
      c.op(OpKind::kWhere, {c.binary(OpKind::kLt, times, most),
                            c.scalar(-std::numeric_limits<double>::infinity(), c.dtype(x)), c.op(OpKind::kNeg, {x})});
  const std::vector<ValueId> found =
      c.ops(OpKind::kMaxDim, {c.op(OpKind::kDetach, {least_first})}, ir::TopkAttrs{d, 1});
  if (found.size() != 2) return c.fail("mode does not fit");
  const ValueId value = c.op(OpKind::kGather, {x, found[1]}, ir::DimAttrs{d});
  if (c.flag("keepdim")) return Item::of_list({made(value), made(found[1])});
  return Item::of_list({made(c.squeeze(value, d)), made(c.squeeze(found[1], d))});
}

}  // namespace piper::frontend::aten
