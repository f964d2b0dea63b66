#include "runtime/kernels/library/products.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>

#include <algorithm>

namespace piper::kernels::library {
namespace {

// One leading axis of out, a and b, strides in elements (0: broadcast).
struct Axis {
  int64_t extent, out, a, b;
};
// out[.., m, n] = a[.., m, k] b[.., k, n]
struct Product {
  std::vector<Axis> batch;
  int64_t m, k, n;
  int64_t out_m, out_n, a_m, a_k, b_k, b_n;
};

at::Tensor matrix(const at::Tensor& base, int64_t offset, at::IntArrayRef shape, at::IntArrayRef strides) {
  // as_strided would refuse views whose base is an expanded tensor of few elements.
  auto* data = static_cast<std::byte*>(base.data_ptr()) + offset * static_cast<int64_t>(base.element_size());
  return at::for_blob(data, shape).strides(strides).options(base.options()).target_device(base.device()).make_tensor();
}

// Drops axes of extent 1 and merges neighbours that are one axis in all three operands.
std::vector<Axis> simplified(const std::vector<Axis>& axes) {
  std::vector<Axis> result;
  for (const Axis& axis : axes) {
    if (axis.extent == 1) continue;
    if (!result.empty()) {
      Axis& last = result.back();
      if (last.out == axis.out * axis.extent && last.a == axis.a * axis.extent && last.b == axis.b * axis.extent) {
        last = {last.extent * axis.extent, axis.out, axis.a, axis.b};
        continue;
      }
    }
    result.push_back(axis);
  }
  return result;
}

// Leading axes that only `a` and `out` have become rows, innermost first.
void fold_rows(Product& p) {
  while (!p.batch.empty()) {
    const Axis axis = p.batch.back();
    if (axis.b != 0) return;
    if (p.m == 1) {
      p.a_m = axis.a;
      p.out_m = axis.out;
    } else if (axis.a != p.a_m * p.m || axis.out != p.out_m * p.m) {
      return;
    }
    p.m *= axis.extent;
    p.batch.pop_back();
  }
}

// All index tuples of `axes` as offsets into the three operands.
template <class F>
void for_each_index(const std::vector<Axis>& axes, F&& body, size_t depth = 0, Axis at = {0, 0, 0, 0}) {
  if (depth == axes.size()) {
    body(at);
    return;
  }
  for (int64_t i = 0; i < axes[depth].extent; ++i)
    for_each_index(axes, body, depth + 1,
                   {0, at.out + i * axes[depth].out, at.a + i * axes[depth].a, at.b + i * axes[depth].b});
}

std::vector<ProductViews> views_of(Product p, const at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                                   bool batched) {
  std::vector<ProductViews> views;
  p.batch = simplified(p.batch);
  fold_rows(p);
  Axis inner{0, 0, 0, 0};
  if (batched && !p.batch.empty()) {
    inner = p.batch.back();
    p.batch.pop_back();
  }
  for_each_index(p.batch, [&](const Axis& at) {
    if (inner.extent == 0) {
      views.push_back({matrix(out, at.out, {p.m, p.n}, {p.out_m, p.out_n}), matrix(a, at.a, {p.m, p.k}, {p.a_m, p.a_k}),
                       matrix(b, at.b, {p.k, p.n}, {p.b_k, p.b_n})});
    } else {
      const int64_t e = inner.extent;
      views.push_back({matrix(out, at.out, {e, p.m, p.n}, {inner.out, p.out_m, p.out_n}),
                       matrix(a, at.a, {e, p.m, p.k}, {inner.a, p.a_m, p.a_k}),
                       matrix(b, at.b, {e, p.k, p.n}, {inner.b, p.b_k, p.b_n})});
    }
  });
  return views;
}

void want_float(const Call& call) {
  for (size_t i = 0; i < call.num_inputs(); ++i)
    if (call.in(i).defined()) want_same_dtype(call.out(0), call.in(i));
  if (!at::isFloatingType(call.out(0).scalar_type())) refuse("a product of integers");
}

// Rows of x and out as leading axes, w as the shared matrix [k, n] with the given strides.
Products rows_times_matrix(const Call& call, const at::Tensor& x, const at::Tensor& w, bool transposed,
                           const at::Tensor& bias) {
  want_float(call);
  const at::Tensor out = call.out(0);
  if (w.dim() != 2 || x.dim() < 1) refuse("a weight that is not a matrix");
  Product p{};
  p.k = w.size(transposed ? 1 : 0);
  p.n = w.size(transposed ? 0 : 1);
  p.b_k = w.stride(transposed ? 1 : 0);
  p.b_n = w.stride(transposed ? 0 : 1);
  std::vector<int64_t> shape = x.sizes().vec();
  if (shape.back() != p.k) refuse("input 0 has ", shape.back(), " columns where ", p.k, " are expected");
  shape.back() = p.n;
  want_shape(out, shape, "the output");
  if (bias.defined()) want_shape(bias, {p.n}, "the bias");
  const int64_t last = x.dim() - 1;
  p.a_k = x.stride(last);
  p.out_n = out.stride(last);
  p.m = last > 0 ? x.size(last - 1) : 1;
  p.a_m = last > 0 ? x.stride(last - 1) : std::max<int64_t>(p.k, 1);
  p.out_m = last > 0 ? out.stride(last - 1) : std::max<int64_t>(p.n, 1);
  for (int64_t axis = 0; axis + 1 < last; ++axis)
    p.batch.push_back({x.size(axis), out.stride(axis), x.stride(axis), 0});
  return {views_of(p, out, x, w, false), bias, false};
}

Products matmul_of(const Call& call) {
  want_float(call);
  const at::Tensor out = call.out(0), a = call.in(0), b = call.in(1);
  if (a.dim() < 2 || b.dim() < 2) refuse("an operand of rank below 2");
  const int64_t rank = std::max(a.dim(), b.dim());
  if (out.dim() != rank) refuse("the output has rank ", out.dim(), " where ", rank, " is expected");
  Product p{{},           a.size(-2),   a.size(-1),   b.size(-1),  out.stride(-2), out.stride(-1),
            a.stride(-2), a.stride(-1), b.stride(-2), b.stride(-1)};
  if (b.size(-2) != p.k) refuse("inner extents ", p.k, " and ", b.size(-2), " differ");
  if (out.size(-2) != p.m || out.size(-1) != p.n) refuse("the output has shape ", out.sizes());
  for (int64_t axis = 0; axis < rank - 2; ++axis) {
    const int64_t extent = out.size(axis);
    const auto stride_in = [&](const at::Tensor& t) -> int64_t {
      const int64_t own = axis - (rank - t.dim());
      if (own < 0 || (t.size(own) == 1 && extent != 1)) return 0;
      if (t.size(own) != extent) refuse("leading axis ", axis, " has extents ", t.size(own), " and ", extent);
      return t.stride(own);
    };
    p.batch.push_back({extent, out.stride(axis), stride_in(a), stride_in(b)});
  }
  return {views_of(p, out, a, b, true), {}, false};
}

// dw[o, i] = sum over rows of g[row, o] x[row, i].
Products linear_backward_weight_of(const Call& call) {
  want_float(call);
  const at::Tensor dw = call.out(0), g = call.in(0), x = call.in(1);
  if (g.dim() != x.dim() || g.dim() < 1) refuse("operands of rank ", g.dim(), " and ", x.dim());
  want_shape(dw, {g.size(-1), x.size(-1)}, "the output");
  std::vector<Axis> rows;  // `a` strides g, `b` strides x; the output has no row axis
  for (int64_t axis = 0; axis + 1 < g.dim(); ++axis) {
    if (g.size(axis) != x.size(axis))
      refuse("leading axis ", axis, " has extents ", g.size(axis), " and ", x.size(axis));
    rows.push_back({g.size(axis), 0, g.stride(axis), x.stride(axis)});
  }
  rows = simplified(rows);
  Axis inner{1, 0, std::max<int64_t>(g.size(-1), 1), std::max<int64_t>(x.size(-1), 1)};
  if (!rows.empty()) {
    inner = rows.back();
    rows.pop_back();
  }
  std::vector<ProductViews> views;
  for_each_index(rows, [&](const Axis& at) {
    views.push_back({dw, matrix(g, at.a, {g.size(-1), inner.extent}, {g.stride(-1), inner.a}),
                     matrix(x, at.b, {inner.extent, x.size(-1)}, {inner.b, x.stride(-1)})});
  });
  return {std::move(views), {}, true};
}

}  // namespace

Products products_of(const Call& call) {
  if (call.name() == "matmul") return matmul_of(call);
  if (call.name() == "linear") return rows_times_matrix(call, call.in(0), call.in(1), true, call.in(2));
  if (call.name() == "linear_backward_input") return rows_times_matrix(call, call.in(0), call.in(1), false, {});
  return linear_backward_weight_of(call);
}

void multiply(at::Tensor out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias, bool accumulate) {
  if (out.dim() == 3) {
    if (accumulate) at::baddbmm_out(out, out, a, b);
    else at::bmm_out(out, a, b);
  } else if (accumulate || bias.defined()) {
    at::addmm_out(out, accumulate ? out : bias, a, b);
  } else {
    at::mm_out(out, a, b);
  }
}

std::unique_ptr<PreparedKernel> bind_products(const Call& call) {
  return make_kernel(call, [products = products_of(call), accumulate = call.accumulate()] {
    for (size_t i = 0; i < products.views.size(); ++i) {
      const auto& [out, a, b] = products.views[i];
      multiply(out, a, b, products.bias, products.adds(accumulate, i));
    }
  });
}

}  // namespace piper::kernels::library
