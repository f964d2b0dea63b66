#include "runtime/kernels/library_products.h"

#include "runtime/kernels/library/products.h"
#include "runtime/kernels/sgemm.h"

namespace piper::kernels {
namespace {

// A copy of the matrices in f32, rows or columns side by side as they are in `t`.
at::Tensor widened(const at::Tensor& t) {
  if (!t.defined()) return t;
  if (t.dim() > 1 && t.stride(-2) == 1 && t.stride(-1) != 1) return dense_computed(t.mT()).mT();
  return dense_computed(t);
}

}  // namespace

bool products_in_f32(at::ScalarType type) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool narrow =
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#else
  const bool narrow = true;
#endif
  return type == at::kHalf || (type == at::kBFloat16 && !narrow);
}

void library_product(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias,
                     bool accumulate) {
  if (!products_in_f32(out.scalar_type())) return library::multiply(out, a, b, bias, accumulate);
  const at::Tensor result = scratch(out.sizes(), at::kFloat, out), wide_a = widened(a), wide_b = widened(b),
                   wide_bias = widened(bias);
  if (accumulate) result.copy_(out);
  const auto own = out.dim() == 2 ? as_sgemm(result, wide_a, wide_b, wide_bias, accumulate) : std::nullopt;
  if (own) sgemm(*own);
  else library::multiply(result, wide_a, wide_b, wide_bias, accumulate);
  out.copy_(result);
}

}  // namespace piper::kernels
