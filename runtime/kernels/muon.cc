// As torch.optim.Muon, except the type: there matrices are rounded to bf16 first, here everything is f32.
#include "runtime/kernels/muon.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/kernels/clones.h"
#include "runtime/kernels/library_products.h"
#include "runtime/kernels/sgemm.h"

namespace piper::kernels {
namespace {

// Jordan et al. (2024): the quintic polynomial that grows small singular values the most.
constexpr float kFirst = 3.4445f, kThird = -4.7750f, kFifth = 2.0315f;

// to = x * to + y * from.
PIPER_CLONES void combine(float* to, float x, const float* from, float y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = x * to[i] + y * from[i];
}
PIPER_CLONES void divide(float* values, float by, int64_t count) {
  for (int64_t i = 0; i < count; ++i) values[i] = values[i] / by;
}

float frobenius_norm(const float* values, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(values[i]) * values[i];
  return static_cast<float>(std::sqrt(sum));
}

void multiply(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  if (const auto own = as_sgemm(out, a, b, {}, false)) sgemm(*own);
  else library_product(out, a, b, {}, false);
}

}  // namespace

void orthogonalise(const at::Tensor& matrix, int64_t steps, double eps) {
  const int64_t rows = matrix.size(0), columns = matrix.size(1), side = std::min(rows, columns);
  auto* const values = static_cast<float*>(matrix.mutable_data_ptr());
  divide(values, std::max(frobenius_norm(values, matrix.numel()), static_cast<float>(eps)), matrix.numel());
  at::Tensor now = matrix, next = scratch_like(matrix);
  const at::Tensor gram = scratch({side, side}, at::kFloat, matrix), square = scratch_like(gram);
  const auto data = [](const at::Tensor& of) { return static_cast<float*>(of.mutable_data_ptr()); };
  for (int64_t step = 0; step < steps; ++step) {
    // With the shorter side first the square matrices are the smaller ones.
    const at::Tensor x = rows > columns ? now.t() : now, y = rows > columns ? next.t() : next;
    multiply(gram, x, x.t());
    multiply(square, gram, gram);
    combine(data(square), kFifth, data(gram), kThird, gram.numel());
    multiply(y, square, x);
    combine(data(next), 1.0f, data(now), kFirst, matrix.numel());
    std::swap(now, next);
  }
  if (steps % 2 != 0) std::copy_n(data(now), matrix.numel(), values);
}

}  // namespace piper::kernels
