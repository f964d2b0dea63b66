// Root-mean-square normalisation, own kernels: y = x * rstd * w, rstd = 1 / sqrt(mean(x^2) + eps) per row.
// LibTorch's forward is a chain of nine temporaries and its backward does not exist on the CPU.
// Row sums are taken in 16 lanes that are added in a fixed order: the same bits on every CPU.
#include <cmath>

#include "runtime/kernels/binding.h"
#include "runtime/kernels/lanes.h"
#include "runtime/kernels/norm_rows.h"

namespace piper::kernels {
namespace {

template <class T, class F>
PIPER_INLINE T lane_sum(int64_t count, F&& term) {
  T lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
  for (int lane = 0; i < count; ++i, ++lane) lanes[lane] += term(i);
  T sum = 0;
  for (int lane = 0; lane < kLanes; ++lane) sum += lanes[lane];
  return sum;
}

template <class T>
PIPER_INLINE T rstd_of(const T* x, int64_t columns, double eps) {
  const T squares = lane_sum<T>(columns, [x](int64_t i) { return x[i] * x[i]; });
  return T(1) / std::sqrt(squares / static_cast<T>(columns) + static_cast<T>(eps));
}

template <class T>
PIPER_INLINE void forward(const T* x, const T* w, T* y, float* rstd, int64_t rows, int64_t columns, double eps) {
  for (int64_t row = 0; row < rows; ++row, x += columns, y += columns) {
    const T r = rstd_of(x, columns, eps);
    if (rstd != nullptr) rstd[row] = static_cast<float>(r);
    if (w != nullptr)
      for (int64_t i = 0; i < columns; ++i) y[i] = x[i] * r * w[i];
    else
      for (int64_t i = 0; i < columns; ++i) y[i] = x[i] * r;
  }
}
// dx = rstd * (g w - x rstd^2 mean(g w x))
template <class T>
PIPER_INLINE void backward_input(const T* g, const T* x, const T* rstd, const T* w, T* dx, int64_t rows,
                                 int64_t columns) {
  for (int64_t row = 0; row < rows; ++row, g += columns, x += columns, dx += columns) {
    const T r = rstd[row];
    const T dot = w != nullptr ? lane_sum<T>(columns, [=](int64_t i) { return g[i] * w[i] * x[i]; })
                               : lane_sum<T>(columns, [=](int64_t i) { return g[i] * x[i]; });
    const T factor = r * r * (dot / static_cast<T>(columns));
    if (w != nullptr)
      for (int64_t i = 0; i < columns; ++i) dx[i] = r * (g[i] * w[i] - x[i] * factor);
    else
      for (int64_t i = 0; i < columns; ++i) dx[i] = r * (g[i] - x[i] * factor);
  }
}
// dw = sum over rows of g x rstd
template <class T>
PIPER_INLINE void backward_weight(const T* g, const T* x, const T* rstd, T* dw, int64_t rows, int64_t columns) {
  for (int64_t row = 0; row < rows; ++row, g += columns, x += columns) {
    const T r = rstd[row];
    for (int64_t i = 0; i < columns; ++i) dw[i] += g[i] * (x[i] * r);
  }
}

#define PIPER_RMS(T)                                                                                                   \
  PIPER_CLONES void run_forward(const T* x, const T* w, T* y, float* rstd, int64_t rows, int64_t columns,              \
                                double eps) {                                                                          \
    forward(x, w, y, rstd, rows, columns, eps);                                                                        \
  }                                                                                                                    \
  PIPER_CLONES void run_backward_input(const T* g, const T* x, const T* rstd, const T* w, T* dx, int64_t rows,         \
                                       int64_t columns) {                                                              \
    backward_input(g, x, rstd, w, dx, rows, columns);                                                                  \
  }                                                                                                                    \
  PIPER_CLONES void run_backward_weight(const T* g, const T* x, const T* rstd, T* dw, int64_t rows, int64_t columns) { \
    backward_weight(g, x, rstd, dw, rows, columns);                                                                    \
  }
PIPER_RMS(float)
PIPER_RMS(double)
#undef PIPER_RMS

NormRows rows_of(const Call& call, const at::Tensor& x) {
  if (!at::isFloatingType(x.scalar_type())) refuse("element type ", toString(x.scalar_type()), " is not supported");
  return norm_rows(call, x);
}
void want_rstd(const at::Tensor& t, const NormRows& r) {
  if (!t.defined()) return;
  want_dtype(t, at::kFloat, "rstd");
  if (t.numel() != r.rows || !t.is_contiguous()) refuse("rstd of ", t.sizes(), " for ", r.rows, " rows");
}
void want_columns(const at::Tensor& t, const at::Tensor& x, const NormRows& r, const char* what) {
  if (!t.defined()) return;
  want_same_dtype(t, x);
  if (t.numel() != r.columns) refuse(what, " has ", t.numel(), " elements where ", r.columns, " are expected");
}

template <class T>
const T* data_or_null(const at::Tensor& t) {
  return t.defined() ? t.const_data_ptr<T>() : nullptr;
}
// rstd in the element type of x. The saved one is f32; for f64 it is computed anew.
at::Tensor rstd_for(const at::Tensor& x, const at::Tensor& rstd, const NormRows& r) {
  if (x.scalar_type() == at::kFloat) return rstd;
  at::Tensor result = scratch({r.rows}, at::kDouble, x);
  for (int64_t row = 0; row < r.rows; ++row)
    result.mutable_data_ptr<double>()[row] = rstd_of(x.const_data_ptr<double>() + row * r.columns, r.columns, r.eps);
  return result;
}

template <class F>
void by_type(const at::Tensor& x, F&& body) {
  if (x.scalar_type() == at::kFloat) body(float{});
  else body(double{});
}

}  // namespace

std::unique_ptr<PreparedKernel> bind_rms_norm(const Call& call) {
  const at::Tensor x = call.in(0);
  const NormRows r = rows_of(call, x);
  want_shape(call.out(0), x.sizes(), "the output");
  want_same_dtype(call.out(0), x);
  want_columns(call.in(1), x, r, "the weight");
  want_rstd(call.out(1), r);
  return make_kernel(call, [y = call.out(0), rstd = call.out(1), x, w = call.in(1), r]() mutable {
    const at::Tensor input = dense_computed(x), weight = dense_computed(w);
    float* saved = rstd.defined() ? rstd.mutable_data_ptr<float>() : nullptr;
    produce_computed(y, false, [&](at::Tensor& out) {
      by_type(input, [&](auto zero) {
        using T = decltype(zero);
        run_forward(input.const_data_ptr<T>(), data_or_null<T>(weight), out.mutable_data_ptr<T>(), saved, r.rows,
                    r.columns, r.eps);
      });
    });
  });
}

std::unique_ptr<PreparedKernel> bind_rms_norm_backward_input(const Call& call) {
  const at::Tensor g = call.in(0), x = call.in(1), rstd = call.in(2), w = call.in(3);
  const NormRows r = rows_of(call, x);
  want_shape(g, x.sizes(), "the gradient");
  want_same_dtype(g, x);
  want_shape(call.out(0), x.sizes(), "the output");
  want_same_dtype(call.out(0), x);
  want_columns(w, x, r, "the weight");
  want_rstd(rstd, r);
  return make_kernel(call, [dx = call.out(0), g, x, rstd, w, r]() mutable {
    const at::Tensor gradient = dense_computed(g), input = dense_computed(x), weight = dense_computed(w),
                     scale = rstd_for(input, rstd, r);
    produce_computed(dx, false, [&](at::Tensor& out) {
      by_type(input, [&](auto zero) {
        using T = decltype(zero);
        run_backward_input(gradient.const_data_ptr<T>(), input.const_data_ptr<T>(), scale.const_data_ptr<T>(),
                           data_or_null<T>(weight), out.mutable_data_ptr<T>(), r.rows, r.columns);
      });
    });
  });
}

std::unique_ptr<PreparedKernel> bind_rms_norm_backward_weight(const Call& call) {
  const at::Tensor g = call.in(0), x = call.in(1), rstd = call.in(2);
  const NormRows r = rows_of(call, x);
  want_shape(g, x.sizes(), "the gradient");
  want_same_dtype(g, x);
  want_columns(call.out(0), x, r, "the output");
  want_rstd(rstd, r);
  return make_kernel(call, [dw = call.out(0), g, x, rstd, r, accumulate = call.accumulate()]() mutable {
    const at::Tensor gradient = dense_computed(g), input = dense_computed(x), scale = rstd_for(input, rstd, r);
    // Summed apart and added once: the sum over a microbatch does not depend on what was there.
    at::Tensor sum = scratch(dw.sizes(), computed_type(dw), dw);
    sum.zero_();
    by_type(input, [&](auto zero) {
      using T = decltype(zero);
      run_backward_weight(gradient.const_data_ptr<T>(), input.const_data_ptr<T>(), scale.const_data_ptr<T>(),
                          sum.mutable_data_ptr<T>(), r.rows, r.columns);
    });
    store(dw, sum, accumulate);
  });
}

}  // namespace piper::kernels
