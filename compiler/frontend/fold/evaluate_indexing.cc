// Constant indexing operators. An index outside its axis leaves the op unfolded.
#include <algorithm>
#include <utility>

#include "compiler/frontend/fold/evaluator.h"
#include "compiler/ir/shapes.h"

namespace piper::frontend::eval {
namespace {

using ir::OpKind;

bool inside(const ConstantTensor& index, int64_t extent) {
  const int64_t* at = elements<int64_t>(index);
  return std::all_of(at, at + index.type.elements(), [&](int64_t i) { return i >= 0 && i < extent; });
}

// Row-major strides without the indexed axis, on which `along` elements lie between neighbours.
struct IndexedAxis {
  Shape strides;
  int64_t along = 0;
};
IndexedAxis apart(const Shape& shape, size_t dim) {
  IndexedAxis axis{ir::row_major_strides(shape), 0};
  axis.along = std::exchange(axis.strides[dim], 0);
  return axis;
}

// index_select and embedding: whole slices of `inner` elements are copied.
Evaluated select(const Call& c, const ConstantTensor& x, const ConstantTensor& index, size_t dim) {
  const Shape& shape = x.type.shape;
  if (!inside(index, shape[dim])) return std::nullopt;
  const int64_t outer = ir::elements_before(shape, dim);
  const auto inner = static_cast<size_t>(ir::elements_behind(shape, dim) * dtype_bytes(x.type.dtype));
  Buffer y(c.results[0]);
  std::byte* out = y.bytes.data();
  const int64_t* at = elements<int64_t>(index);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t n = 0; n < index.type.elements(); ++n) {
      std::memcpy(out, x.data()->data() + static_cast<size_t>(o * shape[dim] + at[n]) * inner, inner);
      out += inner;
    }
  return Tensors{y.done()};
}

Evaluated gather(const Call& c) {
  size_t dim = static_cast<size_t>(c.as<ir::DimAttrs>().dim);
  const ConstantTensor &x = c.x[0], &index = c.x[1];
  if (!inside(index, x.type.shape[dim])) return std::nullopt;
  Buffer y(c.results[0]);
  const IndexedAxis axis = apart(x.type.shape, dim);
  const int64_t* at_index = elements<int64_t>(index);
  with_size(y.type.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* from = elements<T>(x);
    T* out = y.data<T>();
    for_each<1>(y.type.shape, {axis.strides},
                [&](int64_t i, const auto& at) { out[i] = from[at[0] + at_index[i] * axis.along]; });
  });
  return Tensors{y.done()};
}

// scatter and scatter_add, in row-major order of `index`: the last write wins.
Evaluated scatter(const Call& c) {
  size_t dim = static_cast<size_t>(c.as<ir::DimAttrs>().dim);
  const ConstantTensor &x = c.x[0], &index = c.x[1], &src = c.x[2];
  if (!inside(index, x.type.shape[dim])) return std::nullopt;
  Buffer y(c.results[0]);
  y.bytes = *x.data();
  const IndexedAxis axis = apart(x.type.shape, dim);
  const int64_t* at_index = elements<int64_t>(index);
  bool known = with_type(y.type.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* from = elements<T>(src);
    T* out = y.data<T>();
    for_each<2>(index.type.shape, {axis.strides, ir::row_major_strides(src.type.shape)},
                [&](int64_t i, const auto& at) {
                  T& to = out[at[0] + at_index[i] * axis.along];
                  to = c.kind == OpKind::kScatterAdd ? static_cast<T>(to + from[at[1]]) : from[at[1]];
                });
  });
  if (!known) return std::nullopt;
  return Tensors{y.done()};
}

Evaluated index_add(const Call& c) {
  size_t dim = static_cast<size_t>(c.as<ir::DimAttrs>().dim);
  const ConstantTensor &x = c.x[0], &index = c.x[1], &src = c.x[2];
  if (!inside(index, x.type.shape[dim])) return std::nullopt;
  Buffer y(c.results[0]);
  y.bytes = *x.data();
  const IndexedAxis axis = apart(x.type.shape, dim);
  Shape row(src.type.shape.size(), 0);  // position along the indexed axis
  row[dim] = 1;
  const int64_t* at_index = elements<int64_t>(index);
  bool known = with_type(y.type.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* from = elements<T>(src);
    T* out = y.data<T>();
    for_each<2>(src.type.shape, {axis.strides, row}, [&](int64_t i, const auto& at) {
      T& to = out[at[0] + at_index[at[1]] * axis.along];
      to = static_cast<T>(to + from[i]);
    });
  });
  if (!known) return std::nullopt;
  return Tensors{y.done()};
}

Evaluated cat(const Call& c) {
  size_t dim = static_cast<size_t>(c.as<ir::DimAttrs>().dim);
  Buffer y(c.results[0]);
  int64_t outer = 1;
  for (size_t i = 0; i < dim; ++i) outer *= y.type.shape[i];
  std::byte* out = y.bytes.data();
  for (int64_t o = 0; o < outer; ++o)
    for (const ConstantTensor& x : c.x) {
      size_t bytes = static_cast<size_t>(x.type.bytes() / outer);
      if (bytes) std::memcpy(out, x.data()->data() + static_cast<size_t>(o) * bytes, bytes);
      out += bytes;
    }
  return Tensors{y.done()};
}

Evaluated pad(const Call& c) {
  const auto& a = c.as<ir::PadAttrs>();
  const ConstantTensor& x = c.x[0];
  Buffer y(c.results[0]);
  Shape own = ir::row_major_strides(x.type.shape), to = ir::row_major_strides(y.type.shape);
  // The part of x that stays: read from `first_x`, written from `first_y`.
  Shape kept;
  int64_t first_x = 0, first_y = 0;
  for (size_t i = 0; i < own.size(); ++i) {
    int64_t low = a.low[i], high = a.high[i];
    kept.push_back(x.type.shape[i] + std::min<int64_t>(low, 0) + std::min<int64_t>(high, 0));
    first_x += std::max<int64_t>(-low, 0) * own[i];
    first_y += std::max<int64_t>(low, 0) * to[i];
  }
  bool known = with_type(y.type.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* from = elements<T>(x);
    T* out = y.data<T>();
    T value = y.type.dtype == DType::kBool ? static_cast<T>(a.value != 0) : static_cast<T>(a.value);
    std::fill(out, out + y.type.elements(), value);
    for_each<2>(kept, {own, to}, [&](int64_t, const auto& at) { out[first_y + at[1]] = from[first_x + at[0]]; });
  });
  if (!known) return std::nullopt;
  return Tensors{y.done()};
}

}  // namespace

Evaluated indexing(const Call& c) {
  if (c.kind == OpKind::kEmbedding) return select(c, c.x[0], c.x[1], 0);
  if (c.kind == OpKind::kIndexSelect) return select(c, c.x[0], c.x[1], static_cast<size_t>(c.as<ir::DimAttrs>().dim));
  if (c.kind == OpKind::kGather) return gather(c);
  if (c.kind == OpKind::kScatter || c.kind == OpKind::kScatterAdd) return scatter(c);
  if (c.kind == OpKind::kIndexAdd) return index_add(c);
  if (c.kind == OpKind::kCat) return cat(c);
  return pad(c);
}

}  // namespace piper::frontend::eval
