// Reductions, scans and top-k.
#include <algorithm>

#include "compiler/frontend/formulas.h"
#include "compiler/frontend/onnx/ops.h"

namespace piper::frontend::onnx {
namespace {

struct Reduction {
  ValueId x;
  std::vector<int64_t> dims;  // sorted
  bool keepdim = true;
  bool none = false;  // nothing is reduced
};

// Axes are in an attribute (older opsets) or in the second operand; absent or empty means all,
// unless noop_with_empty_axes.
Reduction read(NodeImport& n) {
  Reduction r;
  r.x = n.in(0);
  r.keepdim = n.int_attr("keepdims", 1) != 0;
  const int64_t rank = n.rank(r.x);
  r.dims = n.has(1) ? n.ints(n.in(1), "axes") : n.ints_attr("axes", {});
  for (int64_t& d : r.dims) d = n.axis(d, rank);
  std::sort(r.dims.begin(), r.dims.end());
  r.dims.erase(std::unique(r.dims.begin(), r.dims.end()), r.dims.end());
  r.none = n.int_attr("noop_with_empty_axes", 0) != 0 && r.dims.empty();
  if (r.dims.empty() && !r.none)
    for (int64_t i = 0; i < rank; ++i) r.dims.push_back(i);
  return r;
}

ValueId reduce(NodeImport& n, OpKind kind, const Reduction& r, ValueId x) {
  if (r.none || (r.dims.empty() && n.rank(x) == 0)) return x;
  return n.emit(kind, {x}, ir::ReduceAttrs{r.dims, r.keepdim});
}

void plain(NodeImport& n, OpKind kind) {
  const Reduction r = read(n);
  if (!n.ok()) return;
  if (r.none || r.dims.empty()) return n.set(0, r.x);
  n.result(kind, {r.x}, ir::ReduceAttrs{r.dims, r.keepdim});
}

}  // namespace

void import_reduce_sum(NodeImport& n) { plain(n, OpKind::kSum); }
void import_reduce_max(NodeImport& n) { plain(n, OpKind::kAmax); }

void import_reduce_mean(NodeImport& n) {
  const Reduction r = read(n);
  if (!n.ok()) return;
  if (!r.keepdim && static_cast<int64_t>(r.dims.size()) == n.rank(r.x))
    if (const std::optional<ValueId> y = match_mse_loss(n, r.x)) return n.set(0, *y);
  if (r.none || r.dims.empty()) return n.set(0, r.x);
  n.result(OpKind::kMean, {r.x}, ir::ReduceAttrs{r.dims, r.keepdim});
}

void import_reduce_min(NodeImport& n) {
  const Reduction r = read(n);
  if (!n.ok()) return;
  if (r.none || r.dims.empty()) return n.set(0, r.x);
  n.result(OpKind::kNeg, {reduce(n, OpKind::kAmax, r, n.emit(OpKind::kNeg, {r.x}))});
}

void import_reduce_l1(NodeImport& n) {
  const Reduction r = read(n);
  if (n.ok()) n.set(0, reduce(n, OpKind::kSum, r, n.emit(OpKind::kAbs, {r.x})));
}

void import_reduce_sum_square(NodeImport& n) {
  const Reduction r = read(n);
  if (n.ok()) n.set(0, reduce(n, OpKind::kSum, r, n.emit(OpKind::kMul, {r.x, r.x})));
}

void import_reduce_l2(NodeImport& n) {
  const Reduction r = read(n);
  if (!n.ok()) return;
  const ValueId squares = reduce(n, OpKind::kSum, r, n.emit(OpKind::kMul, {r.x, r.x}));
  if (n.ok()) n.set(0, root_of_squares(n.builder(), squares));
}

void import_reduce_log_sum(NodeImport& n) {
  const Reduction r = read(n);
  if (n.ok()) n.result(OpKind::kLog, {reduce(n, OpKind::kSum, r, r.x)});
}

void import_reduce_log_sum_exp(NodeImport& n) {
  const Reduction r = read(n);
  if (!n.ok()) return;
  if (!is_floating(n.dtype(r.x))) return n.refuse("it is supported on floating-point numbers");
  n.set(0, r.none ? r.x : log_sum_exp(n.builder(), r.x, r.dims, r.keepdim));
}

void import_reduce_prod(NodeImport& n) {
  const Reduction r = read(n);
  if (!n.ok()) return;
  if (is_floating(n.dtype(r.x)))
    return n.set(0, r.none ? r.x : product_of_elements(n.builder(), r.x, r.dims, r.keepdim));
  const std::optional<std::vector<int64_t>> all = n.known_ints(r.x);
  if (!all || static_cast<int64_t>(r.dims.size()) != n.rank(r.x))
    return n.refuse("products of integers are supported where they are known, along all axes");
  int64_t product = 1, of_step = 1;
  for (const int64_t v : *all)
    if (__builtin_mul_overflow(product, v, &product)) return n.refuse("its product overflows");
  for (const int64_t v : n.known_ints_of_step(r.x).value_or(*all))
    if (__builtin_mul_overflow(of_step, v, &of_step)) return n.refuse("its product overflows");
  const std::vector<int64_t> to(r.keepdim ? static_cast<size_t>(n.rank(r.x)) : 0, 1);
  n.set(0, n.cast(n.constant_i64(to, {product}, std::vector<int64_t>{of_step}), n.dtype(r.x)));
}

void import_arg_max(NodeImport& n) {
  const ValueId x = n.in(0);
  const int64_t axis = n.axis(n.int_attr("axis", 0), n.rank(x));
  if (n.int_attr("select_last_index", 0) != 0) n.refuse("select_last_index is not supported");
  if (!n.ok()) return;
  const ValueId index = n.emit_all(OpKind::kMaxDim, {x}, ir::TopkAttrs{axis, 1})[1];
  std::vector<int64_t> to = n.shape(x);
  if (n.int_attr("keepdims", 1) != 0) to[static_cast<size_t>(axis)] = 1;
  else to.erase(to.begin() + axis);
  n.set(0, n.reshape(index, to));
}

// exclusive: without the element itself. reverse: from the end, as total - sum of those before.
void import_cum_sum(NodeImport& n) {
  const ValueId x = n.in(0);
  const int64_t axis = n.axis(n.one_int(n.in(1), "axis"), n.rank(x));
  const bool exclusive = n.int_attr("exclusive", 0) != 0, reverse = n.int_attr("reverse", 0) != 0;
  if (!n.ok()) return;
  if (!exclusive && !reverse) return n.result(OpKind::kCumsum, {x}, ir::DimAttrs{axis});
  const ValueId forward = n.emit(OpKind::kCumsum, {x}, ir::DimAttrs{axis});
  if (!reverse) return n.result(OpKind::kSub, {forward, x});
  const ValueId total = n.emit(OpKind::kSum, {x}, ir::ReduceAttrs{{axis}, true});
  const ValueId after = n.emit(OpKind::kSub, {total, forward});
  if (exclusive) return n.set(0, after);
  n.result(OpKind::kAdd, {after, x});
}

void import_top_k(NodeImport& n) {
  ValueId x = n.in(0);
  const int64_t k = n.one_int(n.in(1), "k");
  const int64_t axis = n.axis(n.int_attr("axis", -1), n.rank(x));
  const bool largest = n.int_attr("largest", 1) != 0;
  if (!n.ok()) return;
  if (k < 1 || k > n.shape(x)[static_cast<size_t>(axis)])
    return n.refuse("its k of " + std::to_string(k) + " does not fit its axis");
  if (!largest) x = n.emit(OpKind::kNeg, {x});
  const std::vector<ValueId> both = n.emit_all(OpKind::kTopk, {x}, ir::TopkAttrs{axis, k});
  n.set(0, largest ? both[0] : n.emit(OpKind::kNeg, {both[0]}));
  n.set(1, both[1]);
}

}  // namespace piper::frontend::onnx
