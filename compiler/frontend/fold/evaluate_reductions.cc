// Constant reductions, scans and matrix products. f32 sums are kept in double and rounded once.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <type_traits>

#include "compiler/frontend/fold/evaluator.h"
#include "compiler/ir/shapes.h"

namespace piper::frontend::eval {
namespace {

using ir::OpKind;

template <class T>
using Accumulator = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;

// NaN counts as the largest number, as in ATen.
template <class T>
bool greater(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a != a) return b == b;
    if (b != b) return false;
  }
  return a > b;
}

template <class T>
void reduce(const Call& c, Buffer& y) {
  const auto& a = c.as<ir::ReduceAttrs>();
  const ConstantTensor& x = c.x[0];
  // The shape with reduced axes kept as 1 gives the strides of the result over x's positions.
  Shape kept = x.type.shape;
  int64_t terms = 1;
  for (int64_t dim : a.dims) {
    terms *= kept[static_cast<size_t>(dim)];
    kept[static_cast<size_t>(dim)] = 1;
  }
  Shape strides = ir::broadcast_strides(kept, x.type.shape);
  const T* from = elements<T>(x);
  T* out = y.data<T>();
  size_t count = static_cast<size_t>(y.type.elements());
  if (c.kind == OpKind::kAmax) {
    std::vector<bool> seen(count, false);
    for_each<1>(x.type.shape, {strides}, [&](int64_t i, const auto& at) {
      size_t to = static_cast<size_t>(at[0]);
      if (!seen[to] || greater(from[i], out[to])) out[to] = from[i];
      seen[to] = true;
    });
    return;
  }
  std::vector<Accumulator<T>> sums(count, 0);
  for_each<1>(x.type.shape, {strides}, [&](int64_t i, const auto& at) {
    sums[static_cast<size_t>(at[0])] += static_cast<Accumulator<T>>(from[i]);
  });
  for (size_t i = 0; i < count; ++i)
    out[i] = static_cast<T>(c.kind == OpKind::kMean ? sums[i] / static_cast<Accumulator<T>>(terms) : sums[i]);
}

// Rows along one axis: start offsets in row-major order of the other axes.
struct Rows {
  int64_t outer = 1, extent = 1, inner = 1;
  Rows(const Shape& shape, int64_t dim) {
    if (shape.empty()) return;
    const auto axis = static_cast<size_t>(dim);
    outer = ir::elements_before(shape, axis);
    extent = shape[axis];
    inner = ir::elements_behind(shape, axis);
  }
};

template <class T>
void cumsum(const Call& c, Buffer& y) {
  Rows rows(c.x[0].type.shape, c.as<ir::DimAttrs>().dim);
  const T* from = elements<T>(c.x[0]);
  T* out = y.data<T>();
  for (int64_t o = 0; o < rows.outer; ++o)
    for (int64_t i = 0; i < rows.inner; ++i) {
      Accumulator<T> sum = 0;
      for (int64_t e = 0; e < rows.extent; ++e) {
        int64_t at = (o * rows.extent + e) * rows.inner + i;
        sum += static_cast<Accumulator<T>>(from[at]);
        out[at] = static_cast<T>(sum);
      }
    }
}

// Descending; equal elements in index order.
template <class T>
void topk(const Call& c, Buffer& values, Buffer& indices) {
  const auto& a = c.as<ir::TopkAttrs>();
  Rows rows(c.x[0].type.shape, a.dim);
  const T* from = elements<T>(c.x[0]);
  T* out = values.data<T>();
  int64_t* index = indices.data<int64_t>();
  std::vector<int64_t> order(static_cast<size_t>(rows.extent));
  for (int64_t o = 0; o < rows.outer; ++o)
    for (int64_t i = 0; i < rows.inner; ++i) {
      auto element = [&](int64_t e) { return from[(o * rows.extent + e) * rows.inner + i]; };
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(),
                       [&](int64_t p, int64_t q) { return greater(element(p), element(q)); });
      for (int64_t k = 0; k < a.k; ++k) {
        int64_t at = (o * a.k + k) * rows.inner + i;
        out[at] = element(order[static_cast<size_t>(k)]);
        index[at] = order[static_cast<size_t>(k)];
      }
    }
}

template <class T>
void matmul(const Call& c, Buffer& y) {
  const Shape &a = c.x[0].type.shape, &b = c.x[1].type.shape, &to = y.type.shape;
  Shape lead(to.begin(), to.end() - 2);
  int64_t m = a[a.size() - 2], k = a.back(), n = b.back();
  Shape sa = ir::broadcast_strides(Shape(a.begin(), a.end() - 2), lead);
  Shape sb = ir::broadcast_strides(Shape(b.begin(), b.end() - 2), lead);
  const T *pa = elements<T>(c.x[0]), *pb = elements<T>(c.x[1]);
  T* out = y.data<T>();
  for_each<2>(lead, {sa, sb}, [&](int64_t batch, const auto& at) {
    const T *ma = pa + at[0] * m * k, *mb = pb + at[1] * k * n;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        Accumulator<T> sum = 0;
        for (int64_t e = 0; e < k; ++e)
          sum += static_cast<Accumulator<T>>(ma[i * k + e]) * static_cast<Accumulator<T>>(mb[e * n + j]);
        out[(batch * m + i) * n + j] = static_cast<T>(sum);
      }
  });
}

}  // namespace

Evaluated reductions(const Call& c) {
  Buffer y(c.results[0]);
  std::optional<Buffer> indices;
  if (c.results.size() > 1) indices.emplace(c.results[1]);
  bool known = with_type(c.x[0].type.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (c.kind == OpKind::kCumsum) cumsum<T>(c, y);
    else if (c.kind == OpKind::kMatmul) matmul<T>(c, y);
    else if (indices) topk<T>(c, y, *indices);
    else reduce<T>(c, y);
  });
  if (!known) return std::nullopt;
  Tensors results{y.done()};
  if (indices) results.push_back(indices->done());
  return results;
}

}  // namespace piper::frontend::eval
