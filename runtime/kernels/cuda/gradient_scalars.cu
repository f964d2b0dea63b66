// Norms, clipping, overflow, the loss scale: what runtime/kernels/gradient_scalars.cc does, with the same numbers.
#include "runtime/kernels/cuda/gradient_scalars.h"

#include <algorithm>
#include <cmath>

#include "runtime/kernels/cuda/device_code.h"
#include "runtime/kernels/cuda/team_sum.h"

namespace piper::kernels::cuda {
namespace {

constexpr int kThreads = 256;
// As torch.amp.GradScaler: backoff_factor, growth_factor, growth_interval.
constexpr float kBackoff = 0.5f, kGrowth = 2.0f;
constexpr int64_t kGrowthInterval = 2000;

struct Square {
  using Sum = double;
  __device__ static double of(float x) { return static_cast<double>(x) * x; }
};
// An infinity or a NaN, and nothing else, makes x - x something other than 0.
struct Difference {
  using Sum = float;
  __device__ static float of(float x) { return x - x; }
};

// A thread's elements and their order are the same whether they are read as packs or one by one.
template <class T, class Term>
__global__ void __launch_bounds__(kThreads) parts_kernel(GradientElements x, bool packed, typename Term::Sum* parts) {
  const T* data = static_cast<const T*>(x.data);
  typename Term::Sum sum = 0;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads * kPack;
  for (int64_t i = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kPack; i < x.count; i += step) {
    if (packed && i + kPack <= x.count) {
      const auto pack = *reinterpret_cast<const Pack<T>*>(data + i);
      for (int k = 0; k < kPack; ++k) sum += Term::of(widen(pack.values[k]));
    } else {
      for (int64_t k = i; k < i + kPack && k < x.count; ++k) sum += Term::of(widen(data[x.layout.at(k)]));
    }
  }
  sum = team_sum<kThreads>(sum);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

__global__ void square_sum_kernel(const double* parts, int num_parts, float* out, bool accumulate) {
  double sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < num_parts; i += kWarp) sum += parts[i];
  sum = team_sum<kWarp>(sum);
  if (threadIdx.x == 0) *out = static_cast<float>(accumulate ? *out + sum : sum);
}
__global__ void overflows_kernel(const float* parts, int num_parts, float* out, bool accumulate) {
  float differences = 0;
  for (int i = static_cast<int>(threadIdx.x); i < num_parts; i += kWarp) differences += parts[i];
  differences = team_sum<kWarp>(differences);
  const float found = differences == 0 ? 0.0f : 1.0f;
  if (threadIdx.x == 0) *out = accumulate ? *out + found : found;
}

// Returns how many parts there are.
template <class Term>
int launch_parts(const GradientElements& x, typename Term::Sum* parts, cudaStream_t stream) {
  const auto blocks = static_cast<int>(std::min(kMostParts, ceil_div(x.count, kThreads * kPack)));
  if (blocks > 0)
    by_gradient_type(x.type, [&](auto type) {
      using T = typename decltype(type)::type;
      const bool packed = x.layout.dense() && holds_packs(static_cast<const T*>(x.data));
      PIPER_LAUNCH((parts_kernel<T, Term>), blocks, kThreads, 0, stream, x, packed, parts);
    });
  return blocks;
}

// torch.nn.utils.clip_grad_norm_; of gradients that are still scaled, both results without that scale.
__global__ void clip_scale_kernel(ClipScale c) {
  double sum = 0;
  for (int64_t i = 0; i < c.count; ++i) sum += c.sums[c.layout.at(i)];
  const double root = std::sqrt(sum);
  const auto total = static_cast<float>(c.loss_scale != nullptr ? root / *c.loss_scale : root);
  if (c.norm != nullptr) *c.norm = total;
  // NaN stays NaN, as torch.clamp keeps it.
  const float wanted = c.limit / (total + 1e-6f);
  const float clipped = wanted > 1.0f ? 1.0f : wanted;
  if (c.factor != nullptr) *c.factor = c.loss_scale != nullptr ? clipped / *c.loss_scale : clipped;
}
__global__ void unscale_kernel(float* factor, const float* loss_scale) { *factor = 1.0f / *loss_scale; }

__global__ void advance_kernel(int64_t* count, const float* overflow) {
  if (overflow == nullptr || *overflow == 0) ++*count;
}
__global__ void advance_loss_scale_kernel(float* scale, int64_t* good, const float* overflow, bool dynamic) {
  if (*overflow != 0) {
    *good = 0;
    if (dynamic) *scale *= kBackoff;
    return;
  }
  if (++*good < kGrowthInterval || !dynamic) return;
  *good = 0;
  if (std::isfinite(*scale * kGrowth)) *scale *= kGrowth;
}

}  // namespace

void launch_square_sum(const GradientElements& x, double* parts, float* out, bool accumulate, cudaStream_t stream) {
  const int num_parts = launch_parts<Square>(x, parts, stream);
  PIPER_LAUNCH(square_sum_kernel, 1, kWarp, 0, stream, parts, num_parts, out, accumulate);
}
void launch_overflows(const GradientElements& x, float* parts, float* out, bool accumulate, cudaStream_t stream) {
  const int num_parts = launch_parts<Difference>(x, parts, stream);
  PIPER_LAUNCH(overflows_kernel, 1, kWarp, 0, stream, parts, num_parts, out, accumulate);
}
void launch_clip_scale(const ClipScale& clip, cudaStream_t stream) {
  PIPER_LAUNCH(clip_scale_kernel, 1, 1, 0, stream, clip);
}
void launch_unscale(float* factor, const float* loss_scale, cudaStream_t stream) {
  PIPER_LAUNCH(unscale_kernel, 1, 1, 0, stream, factor, loss_scale);
}
void launch_advance(int64_t* count, const float* overflow, cudaStream_t stream) {
  PIPER_LAUNCH(advance_kernel, 1, 1, 0, stream, count, overflow);
}
void launch_advance_loss_scale(float* scale, int64_t* good, const float* overflow, bool dynamic, cudaStream_t stream) {
  PIPER_LAUNCH(advance_loss_scale_kernel, 1, 1, 0, stream, scale, good, overflow, dynamic);
}

}  // namespace piper::kernels::cuda
