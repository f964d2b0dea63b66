#include "runtime/kernels/fast_pointwise.h"

#include <algorithm>

#include "runtime/kernels/element_type.h"
#include "runtime/kernels/lanes.h"
#include "runtime/kernels/library/binders.h"

namespace piper::kernels {
namespace {

// V: a vector of f32.

template <class V>
PIPER_INLINE V size_of(const V& x) {
  return x < 0.0f ? -x : x;
}

// Cephes' tanhf: a polynomial near 0, 1 - 2 / (exp(2 |x|) + 1) elsewhere.
template <class V>
PIPER_INLINE void tanh_vector(V& x) {
  const V size = size_of(x);
  V e = size > 10.0f ? V{} + 20.0f : size * 2.0f;
  exp_vector(e);
  const V far = 1.0f - 2.0f / (e + 1.0f);
  const V z = x * x;
  V near = z * -5.70498872745e-3f + 2.06390887954e-2f;
  near = near * z - 5.37397155531e-2f;
  near = near * z + 1.33314422036e-1f;
  near = near * z - 3.33332819422e-1f;
  near = near * z * x + x;
  x = size < 0.625f ? near : (x < 0.0f ? -far : far);
}
// Abramowitz and Stegun 7.1.26.
template <class V>
PIPER_INLINE void erf_vector(V& x) {
  const V size = size_of(x);
  const V t = 1.0f / (size * 0.3275911f + 1.0f);
  V p = t * 1.061405429f - 1.453152027f;
  p = p * t + 1.421413741f;
  p = p * t - 0.284496736f;
  p = p * t + 0.254829592f;
  V e = -(x * x);
  exp_vector(e);
  const V y = 1.0f - p * t * e;
  x = x < 0.0f ? -y : y;
}
// gelu(x) = x s with s = sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3); leaves s.
template <class V>
PIPER_INLINE void gelu_sigmoid(const V& x, V& s) {
  const V u = (x * x * x * 0.044715f + x) * 0.7978845608f;
  V e = u * -2.0f;
  e = e > 80.0f ? V{} + 80.0f : e;
  exp_vector(e);
  s = 1.0f / (e + 1.0f);
}

struct Tanh {
  template <class V>
  static PIPER_INLINE void apply(V& x, const V&) {
    tanh_vector(x);
  }
};
struct Erf {
  template <class V>
  static PIPER_INLINE void apply(V& x, const V&) {
    erf_vector(x);
  }
};
struct GeluTanh {
  template <class V>
  static PIPER_INLINE void apply(V& x, const V&) {
    V s;
    gelu_sigmoid(x, s);
    x = x * s;
  }
};
struct GeluTanhBackward {
  template <class V>
  static PIPER_INLINE void apply(V& x, const V& g) {
    V s;
    gelu_sigmoid(x, s);
    const V slope = (x * x * (3 * 0.044715f) + 1.0f) * (2 * 0.7978845608f);
    x = g * (s + x * s * (1.0f - s) * slope);
  }
};

struct Row {
  float* y;
  const float* x;
  const float* g;  // nullptr where the function has one operand
  int64_t y_stride, x_stride, g_stride, count;
};

template <class F, int kBytes>
PIPER_INLINE void row_body(const Row& r) {
  Lanes<float, kBytes> x, g;
  for (int64_t i = 0; i < r.count; i += kLanes) {
    load_lanes(x, r.x, r.x_stride, i, r.count, 0.0f);
    if (r.g != nullptr) load_lanes(g, r.g, r.g_stride, i, r.count, 0.0f);
    for (int p = 0; p < x.kParts; ++p) F::apply(x.part[p], g.part[p]);
    store_lanes(r.y, r.y_stride, i, r.count, x);
  }
}
PIPER_BY_WIDTH(void, tanh_row, (const Row& row), (row), row_body<Tanh, kBytes>)
PIPER_BY_WIDTH(void, erf_row, (const Row& row), (row), row_body<Erf, kBytes>)
PIPER_BY_WIDTH(void, gelu_row, (const Row& row), (row), row_body<GeluTanh, kBytes>)
PIPER_BY_WIDTH(void, gelu_backward_row, (const Row& row), (row), row_body<GeluTanhBackward, kBytes>)

// One row where all operands are dense, else one for each index of the leading axes.
template <class F>
void for_each_row(const at::Tensor& y, const at::Tensor& x, const at::Tensor& g, F&& body) {
  Row row{y.mutable_data_ptr<float>(),
          x.const_data_ptr<float>(),
          g.defined() ? g.const_data_ptr<float>() : nullptr,
          1,
          1,
          1,
          y.numel()};
  if (row.count == 0) return;
  if (y.dim() == 0 || (y.is_contiguous() && x.is_contiguous() && (!g.defined() || g.is_contiguous()))) {
    body(row);
    return;
  }
  const int64_t last = y.dim() - 1;
  const int64_t rows = y.numel() / y.size(last);
  row.count = y.size(last);
  row.y_stride = y.stride(last);
  row.x_stride = x.stride(last);
  row.g_stride = g.defined() ? g.stride(last) : 0;
  for (int64_t index = 0; index < rows; ++index) {
    Row at = row;
    int64_t rest = index;
    for (int64_t axis = last; axis-- > 0;) {
      const int64_t i = rest % y.size(axis);
      rest /= y.size(axis);
      at.y += i * y.stride(axis);
      at.x += i * x.stride(axis);
      if (g.defined()) at.g += i * g.stride(axis);
    }
    body(at);
  }
}

// Elements of another type in f32, block by block.
template <class F>
void for_each_block(const at::Tensor& y, const at::Tensor& x, const at::Tensor& g, F&& body) {
  constexpr int64_t kBlock = 1024;
  const DType type = element_type(y);
  const int64_t bytes = dtype_bytes(type);
  const auto at = [bytes](const at::Tensor& t, int64_t i) { return static_cast<std::byte*>(t.data_ptr()) + i * bytes; };
  float y_block[kBlock], x_block[kBlock], g_block[kBlock];
  for (int64_t i = 0; i < y.numel(); i += kBlock) {
    const int64_t count = std::min(kBlock, y.numel() - i);
    convert_elements(type, at(x, i), DType::kF32, x_block, count);
    if (g.defined()) convert_elements(type, at(g, i), DType::kF32, g_block, count);
    body(Row{y_block, x_block, g.defined() ? g_block : nullptr, 1, 1, 1, count});
    convert_elements(DType::kF32, y_block, type, at(y, i), count);
  }
}

template <class F>
void apply(const at::Tensor& y, const at::Tensor& x, const at::Tensor& g, F&& body) {
  if (y.scalar_type() == at::kFloat) for_each_row(y, x, g, body);
  else for_each_block(y, x, g, body);
}

}  // namespace

bool serves_fast_pointwise(std::initializer_list<at::Tensor> operands) {
  return std::all_of(operands.begin(), operands.end(), [](const at::Tensor& t) {
    return t.scalar_type() == at::kFloat || (computed_type(t) == at::kFloat && t.is_contiguous());
  });
}

void fast_tanh(const at::Tensor& y, const at::Tensor& x) {
  apply(y, x, {}, [](const Row& row) { tanh_row(row); });
}
void fast_erf(const at::Tensor& y, const at::Tensor& x) {
  apply(y, x, {}, [](const Row& row) { erf_row(row); });
}
void fast_gelu_tanh(const at::Tensor& y, const at::Tensor& x) {
  apply(y, x, {}, [](const Row& row) { gelu_row(row); });
}
void fast_gelu_tanh_backward(const at::Tensor& dx, const at::Tensor& g, const at::Tensor& x) {
  apply(dx, x, g, [](const Row& row) { gelu_backward_row(row); });
}

#define PIPER_FAST_UNARY(name)                                                                \
  std::unique_ptr<PreparedKernel> bind_fast_##name(const Call& call) {                        \
    if (!serves_fast_pointwise({call.out(0), call.in(0)})) return library::bind_##name(call); \
    want_shape(call.out(0), call.in(0).sizes(), "the output");                                \
    want_same_dtype(call.out(0), call.in(0));                                                 \
    return make_kernel(call, [y = call.out(0), x = call.in(0)] { fast_##name(y, x); });       \
  }
PIPER_FAST_UNARY(erf)
PIPER_FAST_UNARY(tanh)
#undef PIPER_FAST_UNARY

}  // namespace piper::kernels
