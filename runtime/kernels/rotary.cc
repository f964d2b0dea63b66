// Rotary position embedding (Su et al., "RoFormer", 2021) in the form that turns the halves of the last axis against
// each other, and its gradient. One pass over x where the operators it is written with make seven; computed in f32 or
// f64 and rounded once. A sum has two products as terms, so the bits are those of the operators written out in f32.
#include <array>

#include "runtime/kernels/binding.h"
#include "runtime/kernels/clones.h"
#include "schemas/plan/convert_elements.h"

namespace piper::kernels {
namespace {

constexpr int64_t kTurnBlock = 256;  // elements of a half that are turned at a time

// The two halves of a row, or of a block of it.
template <class T>
struct Halves {
  T *first, *second;
};

template <class T>
PIPER_INLINE void forward_body(Halves<const T> x, Halves<const T> cos, Halves<const T> sin, Halves<T> y,
                               int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    y.first[i] = x.first[i] * cos.first[i] - x.second[i] * sin.first[i];
    y.second[i] = x.second[i] * cos.second[i] + x.first[i] * sin.second[i];
  }
}
template <class T>
PIPER_INLINE void backward_body(Halves<const T> g, Halves<const T> cos, Halves<const T> sin, Halves<T> dx,
                                int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    dx.first[i] = g.first[i] * cos.first[i] + g.second[i] * sin.second[i];
    dx.second[i] = g.second[i] * cos.second[i] - g.first[i] * sin.first[i];
  }
}

#define PIPER_ROTARY(T)                                                                                                \
  PIPER_CLONES void forward(Halves<const T> x, Halves<const T> cos, Halves<const T> sin, Halves<T> y, int64_t count) { \
    forward_body(x, cos, sin, y, count);                                                                               \
  }                                                                                                                    \
  PIPER_CLONES void backward(Halves<const T> g, Halves<const T> cos, Halves<const T> sin, Halves<T> dx,                \
                             int64_t count) {                                                                          \
    backward_body(g, cos, sin, dx, count);                                                                             \
  }
PIPER_ROTARY(float)
PIPER_ROTARY(double)
#undef PIPER_ROTARY

// Rows of a view whose last axis is dense; it may be broadcast over the others.
struct View {
  std::byte* data = nullptr;
  DType dtype = DType::kF32;
  at::DimVector strides;  // bytes, of all axes but the last

  explicit View(const at::Tensor& t) : data(static_cast<std::byte*>(t.mutable_data_ptr())), dtype(element_dtype(t)) {
    for (int64_t axis = 0; axis + 1 < t.dim(); ++axis)
      strides.push_back(t.stride(axis) * static_cast<int64_t>(t.element_size()));
  }
  std::byte* row(at::IntArrayRef index) const {
    std::byte* at = data;
    for (size_t axis = 0; axis < index.size(); ++axis) at += index[axis] * strides[axis];
    return at;
  }

  static DType element_dtype(const at::Tensor& t) {
    switch (t.scalar_type()) {
      case at::kFloat: return DType::kF32;
      case at::kDouble: return DType::kF64;
      case at::kBFloat16: return DType::kBF16;
      case at::kHalf: return DType::kF16;
      default: refuse("element type ", toString(t.scalar_type()), " is not supported");
    }
  }
};

template <class T>
constexpr DType kTypeOf = std::is_same_v<T, double> ? DType::kF64 : DType::kF32;

// Elements [first, first + count) of both halves of a row in the type that is computed in: where they lie, or, where
// they have another type or are `apart`, in `block`.
template <class T>
Halves<const T> halves(const std::byte* row, DType dtype, int64_t half, int64_t first, int64_t count, bool apart,
                       std::array<T, 2 * kTurnBlock>& block) {
  const int64_t bytes = dtype_bytes(dtype);
  const std::byte *a = row + first * bytes, *b = a + half * bytes;
  if (dtype == kTypeOf<T> && !apart) return {reinterpret_cast<const T*>(a), reinterpret_cast<const T*>(b)};
  T* const to = block.data();
  if (count == half) {
    convert_elements(dtype, a, kTypeOf<T>, to, 2 * count);
  } else {
    convert_elements(dtype, a, kTypeOf<T>, to, count);
    convert_elements(dtype, b, kTypeOf<T>, to + count, count);
  }
  return {to, to + count};
}

using TurnF32 = void (*)(Halves<const float>, Halves<const float>, Halves<const float>, Halves<float>, int64_t);
using TurnF64 = void (*)(Halves<const double>, Halves<const double>, Halves<const double>, Halves<double>, int64_t);

// y may be x itself.
template <class T, class Turn>
void turn_rows(const at::Tensor& y_view, const at::Tensor& x_view, const at::Tensor& cos_view,
               const at::Tensor& sin_view, Turn turn) {
  const View y(y_view), x(x_view), cos(cos_view), sin(sin_view);
  const int64_t half = y_view.size(-1) / 2, bytes = dtype_bytes(y.dtype);
  std::array<T, 2 * kTurnBlock> x_block, cos_block, sin_block, y_block;
  at::DimVector index(y.strides.size(), 0);
  for (int64_t rows = half == 0 ? 0 : y_view.numel() / (2 * half); rows-- > 0;) {
    const std::byte *x_row = x.row(index), *cos_row = cos.row(index), *sin_row = sin.row(index);
    std::byte* y_row = y.row(index);
    for (int64_t first = 0; first < half; first += kTurnBlock) {
      const int64_t count = std::min(kTurnBlock, half - first);
      std::byte *y1 = y_row + first * bytes, *y2 = y1 + half * bytes;
      const bool direct = y.dtype == kTypeOf<T>;
      const Halves<T> out = direct ? Halves<T>{reinterpret_cast<T*>(y1), reinterpret_cast<T*>(y2)}
                                   : Halves<T>{y_block.data(), y_block.data() + count};
      turn(halves(x_row, x.dtype, half, first, count, x_row == y_row, x_block),
           halves(cos_row, cos.dtype, half, first, count, false, cos_block),
           halves(sin_row, sin.dtype, half, first, count, false, sin_block), out, count);
      if (direct) continue;
      if (count == half) {
        convert_elements(DType::kF32, out.first, y.dtype, y1, 2 * count);
        continue;
      }
      convert_elements(DType::kF32, out.first, y.dtype, y1, count);
      convert_elements(DType::kF32, out.second, y.dtype, y2, count);
    }
    for (size_t axis = index.size(); axis-- > 0;) {
      if (++index[axis] < y_view.size(static_cast<int64_t>(axis))) break;
      index[axis] = 0;
    }
  }
}

// The view itself where its last axis is dense, else a copy.
at::Tensor dense_last_axis(const at::Tensor& t) { return t.stride(-1) == 1 ? t : dense(t); }

std::unique_ptr<PreparedKernel> bind(const Call& call, TurnF32 f32, TurnF64 f64) {
  const at::Tensor y = call.out(0), x = call.in(0);
  want_shape(x, y.sizes(), "input 0");
  want_same_dtype(x, y);
  if (y.dim() < 2 || y.size(-1) % 2 != 0) refuse("input 0 of ", y.sizes(), " has no halves of a last axis");
  const auto table = [&](size_t i) {
    const at::Tensor t = call.in(i);
    if (t.scalar_type() != computed_type(x)) want_same_dtype(t, x);
    if (t.dim() == 0 || t.size(-1) != y.size(-1)) refuse("input ", i, " of ", t.sizes(), " for rows of ", y.size(-1));
    want_broadcast(y, {x, t});
    return t.expand(y.sizes());
  };
  (void)View(y);
  return make_kernel(call, [=, cos = table(1), sin = table(2)] {
    const at::Tensor rows = dense_last_axis(x), cos_rows = dense_last_axis(cos), sin_rows = dense_last_axis(sin);
    const at::Tensor result = y.stride(-1) == 1 ? y : scratch_like(y);
    if (y.scalar_type() == at::kDouble) turn_rows<double>(result, rows, cos_rows, sin_rows, f64);
    else turn_rows<float>(result, rows, cos_rows, sin_rows, f32);
    if (result.const_data_ptr() != y.const_data_ptr()) store(y, result, false);
  });
}

}  // namespace

std::unique_ptr<PreparedKernel> bind_rotary(const Call& call) { return bind(call, forward, forward); }
std::unique_ptr<PreparedKernel> bind_rotary_backward(const Call& call) { return bind(call, backward, backward); }

}  // namespace piper::kernels
