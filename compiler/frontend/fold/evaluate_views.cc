// Constant views, fill and cast.
#include <cmath>
#include <limits>
#include <type_traits>

#include "compiler/frontend/fold/evaluator.h"
#include "compiler/ir/shapes.h"

namespace piper::frontend::eval {
namespace {

ConstantTensor copy_strided(const ConstantTensor& x, const ir::TensorType& to, const Shape& strides, int64_t start) {
  Buffer y(to);
  if (to.elements() == 0) return y.done();
  with_size(to.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* from = elements<T>(x) + start;
    T* out = y.data<T>();
    for_each<1>(to.shape, {strides}, [&](int64_t i, const auto& at) { out[i] = from[at[0]]; });
  });
  return y.done();
}

// C++ leaves out-of-range conversions open; they saturate here, NaN becomes 0.
template <class To, class From>
To convert(From v) {
  if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (v != v) return 0;
    if (v >= -static_cast<double>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::max();
    if (v <= static_cast<double>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
  }
  return static_cast<To>(v);
}

}  // namespace

Evaluated views(const Call& c) {
  const ir::TensorType& to = c.results[0];
  if (c.kind == ir::OpKind::kFill) {
    Buffer y(to);
    double value = c.as<ir::FillAttrs>().value;
    bool known = with_type(to.dtype, [&](auto zero) {
      using T = decltype(zero);
      T element = to.dtype == DType::kBool ? static_cast<T>(value != 0) : convert<T>(value);
      T* out = y.data<T>();
      for (int64_t i = 0; i < to.elements(); ++i) out[i] = element;
    });
    if (!known) return std::nullopt;
    return Tensors{y.done()};
  }
  const ConstantTensor& x = c.x[0];
  Shape own = ir::row_major_strides(x.type.shape);
  if (c.kind == ir::OpKind::kPermute) {
    Shape strides;
    for (int64_t dim : c.as<ir::PermuteAttrs>().dims) strides.push_back(own[static_cast<size_t>(dim)]);
    return Tensors{copy_strided(x, to, strides, 0)};
  }
  if (c.kind == ir::OpKind::kExpand)
    return Tensors{copy_strided(x, to, ir::broadcast_strides(x.type.shape, to.shape), 0)};
  if (c.kind == ir::OpKind::kSlice) {
    const auto& a = c.as<ir::SliceAttrs>();
    size_t d = static_cast<size_t>(a.dim);
    Shape strides = own;
    strides[d] *= a.step;
    return Tensors{copy_strided(x, to, strides, own[d] * a.start)};
  }
  return Tensors{{to, x.data()}};  // reshape, detach, copy: the same bytes
}

Evaluated cast(const Call& c) {
  const ConstantTensor& x = c.x[0];
  const ir::TensorType& to = c.results[0];
  if (x.type.dtype == to.dtype) return Tensors{x};
  Buffer y(to);
  bool known = true;
  known &= with_type(x.type.dtype, [&](auto from_zero) {
    using From = decltype(from_zero);
    const From* from = elements<From>(x);
    known &= with_type(to.dtype, [&](auto to_zero) {
      using To = decltype(to_zero);
      To* out = y.data<To>();
      for (int64_t i = 0; i < to.elements(); ++i)
        out[i] = to.dtype == DType::kBool ? static_cast<To>(from[i] != 0) : convert<To>(from[i]);
    });
  });
  if (!known) return std::nullopt;
  return Tensors{y.done()};
}

}  // namespace piper::frontend::eval
