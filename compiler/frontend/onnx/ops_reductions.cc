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
};

// Axes are in an attribute (older opsets) or in the second operand; absent or empty means all, or, with
// noop_with_empty_axes, one more axis of extent 1.
Reduction read(NodeImport& n) {
  Reduction r;
  r.x = n.in(0);
  r.keepdim = n.int_attr("keepdims", 1) != 0;
  const int64_t rank = n.rank(r.x);
  r.dims = n.has(1) ? n.ints(n.in(1), "axes") : n.ints_attr("axes", {});
  for (int64_t& d : r.dims) d = n.axis(d, rank);
  std::sort(r.dims.begin(), r.dims.end());
  r.dims.erase(std::unique(r.dims.begin(), r.dims.end()), r.dims.end());
  const bool no_op = n.int_attr("noop_with_empty_axes", 0) != 0;
  if (!r.dims.empty() || !n.ok()) return r;
  if (no_op) return {n.unsqueeze(r.x, -1), {rank}, false};
  for (int64_t i = 0; i < rank; ++i) r.dims.push_back(i);
  return r;
}

void plain(NodeImport& n, OpKind kind) {
  const Reduction r = read(n);
  if (!n.ok()) return;
  if (r.dims.empty()) return n.set(0, r.x);
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
  if (r.dims.empty()) return n.set(0, r.x);
  n.result(OpKind::kMean, {r.x}, ir::ReduceAttrs{r.dims, r.keepdim});
}

void import_reduce_min(NodeImport& n) {
  const Reduction r = read(n);
  n.is_call("aten.amin.default", {r.x, r.dims, r.keepdim});
}
void import_reduce_l1(NodeImport& n) {
  const Reduction r = read(n);
  n.is_call("aten.linalg_vector_norm.default", {r.x, 1, r.dims, r.keepdim});
}
void import_reduce_l2(NodeImport& n) {
  const Reduction r = read(n);
  n.is_call("aten.linalg_vector_norm.default", {r.x, 2, r.dims, r.keepdim});
}
void import_reduce_sum_square(NodeImport& n) {
  const Reduction r = read(n);
  if (!n.ok()) return;
  const ValueId squares = n.emit(OpKind::kMul, {r.x, r.x});
  if (r.dims.empty()) return n.set(0, squares);
  n.result(OpKind::kSum, {squares}, ir::ReduceAttrs{r.dims, r.keepdim});
}
void import_reduce_log_sum(NodeImport& n) {
  const Reduction r = read(n);
  n.result(OpKind::kLog, {n.call("aten.sum.dim_IntList", {r.x, r.dims, r.keepdim})});
}
void import_reduce_log_sum_exp(NodeImport& n) {
  const Reduction r = read(n);
  if (n.ok() && !is_floating(n.dtype(r.x))) return n.refuse("it is supported on floating-point numbers");
  n.is_call("aten.logsumexp.default", {r.x, r.dims, r.keepdim});
}

void import_reduce_prod(NodeImport& n) {
  const Reduction r = read(n);
  if (!n.ok()) return;
  if (is_floating(n.dtype(r.x))) return n.set(0, product_of_elements(n.builder(), r.x, r.dims, r.keepdim));
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

namespace {
void place_of_extreme(NodeImport& n, const char* target) {
  if (n.int_attr("select_last_index", 0) != 0) n.refuse("select_last_index is not supported");
  n.is_call(target, {n.in(0), n.int_attr("axis", 0), n.int_attr("keepdims", 1) != 0});
}

// exclusive: of the elements before, of none `nothing`. reverse: from the end.
void scanned(NodeImport& n, const char* target, double nothing) {
  ValueId x = n.in(0);
  const int64_t axis = n.axis(n.one_int(n.in(1), "axis"), n.rank(x));
  const bool exclusive = n.int_attr("exclusive", 0) != 0, reverse = n.int_attr("reverse", 0) != 0;
  const std::vector<int64_t> axes{axis};
  if (reverse) x = n.call("aten.flip.default", {x, axes});
  if (exclusive && n.ok()) {
    const std::vector<int64_t> none(static_cast<size_t>(n.rank(x)), 0);
    ir::PadAttrs attrs{none, none, nothing};
    attrs.low[static_cast<size_t>(axis)] = 1;
    attrs.high[static_cast<size_t>(axis)] = -1;
    x = n.emit(OpKind::kPad, {x}, std::move(attrs));
  }
  const ValueId y = n.cast(n.call(target, {x, axis}), n.dtype(x));
  if (reverse) n.is_call("aten.flip.default", {y, axes});
  else n.set_all({y});
}
}  // namespace

void import_arg_max(NodeImport& n) { place_of_extreme(n, "aten.argmax.default"); }
void import_arg_min(NodeImport& n) { place_of_extreme(n, "aten.argmin.default"); }
void import_cum_sum(NodeImport& n) { scanned(n, "aten.cumsum.default", 0); }
void import_cum_prod(NodeImport& n) { scanned(n, "aten.cumprod.default", 1); }

void import_top_k(NodeImport& n) {
  const ValueId x = n.in(0);
  const int64_t k = n.one_int(n.in(1), "k"), axis = n.axis(n.int_attr("axis", -1), n.rank(x));
  if (n.ok() && (k < 1 || k > n.shape(x)[static_cast<size_t>(axis)]))
    return n.refuse("its k of " + std::to_string(k) + " does not fit its axis");
  n.is_call("aten.topk.default", {x, k, axis, n.int_attr("largest", 1) != 0});
}

}  // namespace piper::frontend::onnx
