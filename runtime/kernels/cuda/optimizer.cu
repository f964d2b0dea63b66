// The optimizers: one pass over parameter, gradient, moments and working copy. Elements are computed in f32 with the
// operations and the order of runtime/kernels/optimizer.cc; what is the same for all elements of a step is taken in
// double by one thread of each block, from the rate and the step in device memory. So the bits are the CPU's, except
// steps in which a device's pow() in double rounds a factor to another float.
#include "runtime/kernels/cuda/optimizer.h"

#include <algorithm>
#include <cmath>

#include "runtime/kernels/cuda/device_code.h"

namespace piper::kernels::cuda {
namespace {

constexpr int kThreads = 256;
// Enough for any GPU to be full; each block takes the factors once.
constexpr int64_t kMostBlocks = 2048;

// What is the same for all elements of a step. kSgd: keep, momentum, l2, rate; kLion: betas, rate, decay; kAdam: all
// but keep, momentum and rate.
struct Factors {
  float scale, l2;
  float rate, momentum, keep;
  float beta1, beta1_rest, beta2, beta2_rest, bias2_root, eps, step_size, decay;
  bool leave_out;
};

__device__ Factors factors_of(const Update& u) {
  Factors f = {};
  f.leave_out = u.overflow != nullptr && *u.overflow != 0;
  if (f.leave_out) return f;
  f.scale = u.factor != nullptr ? *u.factor : 1.0f;
  const double lr = *u.learning_rate * u.rate;
  const int64_t step = *u.step;
  f.rate = static_cast<float>(lr);
  f.decay = u.decoupled ? static_cast<float>(1 - lr * u.weight_decay) : 1.0f;
  f.l2 = u.decoupled ? 0.0f : static_cast<float>(u.weight_decay);
  f.beta1 = static_cast<float>(u.beta1);
  f.beta1_rest = static_cast<float>(1 - u.beta1);
  f.beta2 = static_cast<float>(u.beta2);
  f.beta2_rest = static_cast<float>(1 - u.beta2);
  if (u.rule == plan::UpdateRule::kSgd) {
    f.momentum = static_cast<float>(u.momentum);
    f.keep = step == 1 ? 0.0f : f.momentum;
  }
  if (u.rule != plan::UpdateRule::kAdam) return f;
  const double bias1 = 1 - std::pow(u.beta1, static_cast<double>(step));
  const double bias2 = 1 - std::pow(u.beta2, static_cast<double>(step));
  f.bias2_root = static_cast<float>(std::sqrt(bias2));
  f.eps = static_cast<float>(u.eps);
  f.step_size = static_cast<float>(lr / bias1);
  return f;
}

struct Element {
  float p, g, m, v;
};

// As the CPU's: a penalty that is none adds nothing, also for a weight that is infinite.
__device__ float penalised(const Factors& f, float gradient, float weight) {
  return f.l2 == 0 ? gradient * f.scale : gradient * f.scale + f.l2 * weight;
}

__device__ void apply(const Update& u, const Factors& f, Element& e) {
  if (u.rule == plan::UpdateRule::kAdam) {
    const float weight = e.p * f.decay;
    const float grad = penalised(f, e.g, weight);
    const float first = e.m + f.beta1_rest * (grad - e.m);
    const float second = e.v * f.beta2 + f.beta2_rest * grad * grad;
    const float denominator = std::sqrt(second) / f.bias2_root + f.eps;
    e.m = first;
    e.v = second;
    e.p = weight - f.step_size * first / denominator;
    return;
  }
  if (u.rule == plan::UpdateRule::kLion) {
    const float grad = e.g * f.scale;
    const float direction = e.m * f.beta1 + grad * f.beta1_rest;
    const float sign = static_cast<float>(direction > 0) - static_cast<float>(direction < 0);
    e.p = e.p * f.decay - f.rate * sign;
    e.m = e.m * f.beta2 + grad * f.beta2_rest;
    return;
  }
  const float grad = penalised(f, e.g, e.p);
  if (u.first_moment == nullptr) {
    e.p = e.p - f.rate * grad;
    return;
  }
  const float buffer = f.keep * e.m + grad;
  e.m = buffer;
  e.p = e.p - f.rate * (u.nesterov ? grad + f.momentum * buffer : buffer);
}

// kCount neighbours from `first` on, as they are and as packs.
template <int kCount, class T>
__device__ void read(const void* data, int64_t first, float (&to)[kCount]) {
  if constexpr (kCount == kPack) {
    const auto pack = *reinterpret_cast<const Pack<T>*>(static_cast<const T*>(data) + first);
    for (int i = 0; i < kCount; ++i) to[i] = widen(pack.values[i]);
  } else {
    to[0] = widen(static_cast<const T*>(data)[first]);
  }
}
template <int kCount, class T>
__device__ void write(void* data, int64_t first, const float (&from)[kCount]) {
  if constexpr (kCount == kPack) {
    Pack<T> pack;
    for (int i = 0; i < kCount; ++i) pack.values[i] = rounded<T>(from[i]);
    *reinterpret_cast<Pack<T>*>(static_cast<T*>(data) + first) = pack;
  } else {
    static_cast<T*>(data)[first] = rounded<T>(from[0]);
  }
}

template <int kCount, class T, class W>
__device__ void update_elements(const Update& u, const Factors& f, int64_t first) {
  const float zeros[kCount] = {};
  if (f.leave_out) return write<kCount, T>(u.gradient, first, zeros);
  float p[kCount], g[kCount], m[kCount] = {}, v[kCount] = {};
  read<kCount, T>(u.parameter, first, p);
  read<kCount, T>(u.gradient, first, g);
  if (u.first_moment != nullptr) read<kCount, T>(u.first_moment, first, m);
  if (u.second_moment != nullptr) read<kCount, T>(u.second_moment, first, v);
  for (int i = 0; i < kCount; ++i) {
    Element e = {p[i], g[i], m[i], v[i]};
    apply(u, f, e);
    p[i] = e.p;
    m[i] = e.m;
    v[i] = e.v;
  }
  write<kCount, T>(u.parameter, first, p);
  write<kCount, T>(u.gradient, first, zeros);
  if (u.first_moment != nullptr) write<kCount, T>(u.first_moment, first, m);
  if (u.second_moment != nullptr) write<kCount, T>(u.second_moment, first, v);
  if (u.working == nullptr) return;
  // Made of the parameter as it is kept.
  for (int i = 0; i < kCount; ++i) p[i] = widen(rounded<T>(p[i]));
  write<kCount, W>(u.working, first, p);
}

template <class T, class W>
__global__ void __launch_bounds__(kThreads) update_kernel(Update u, bool packed) {
  __shared__ Factors shared;
  if (threadIdx.x == 0) shared = factors_of(u);
  __syncthreads();
  const Factors f = shared;
  const int64_t packs = packed ? u.count / kPack : 0;
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x,
                threads = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = thread; i < packs; i += threads) update_elements<kPack, T, W>(u, f, i * kPack);
  for (int64_t i = packs * kPack + thread; i < u.count; i += threads) update_elements<1, T, W>(u, f, i);
}

}  // namespace

void launch_update(const Update& update, cudaStream_t stream) {
  if (update.count == 0) return;
  by_gradient_type(update.type, [&](auto type) {
    using T = typename decltype(type)::type;
    by_gradient_type(update.working_type, [&](auto working_type) {
      using W = typename decltype(working_type)::type;
      bool packed = holds_packs(static_cast<const W*>(update.working));
      for (const void* state : {update.parameter, update.gradient, update.first_moment, update.second_moment})
        packed = packed && holds_packs(static_cast<const T*>(state));
      const int64_t blocks = std::min(kMostBlocks, ceil_div(update.count, kThreads * (packed ? kPack : 1)));
      PIPER_LAUNCH((update_kernel<T, W>), grid_of(blocks), kThreads, 0, stream, update, packed);
    });
  });
}

}  // namespace piper::kernels::cuda
