#include "runtime/kernels/cuda/activations.h"

#include <cmath>

#include "runtime/kernels/cuda/device_code.h"

namespace piper::kernels::cuda {
namespace {

constexpr int kThreads = 256;

template <class C>
__device__ C sigmoid(C x) {
  return C(1) / (C(1) + std::exp(-x));
}

struct Silu {
  template <class C>
  __device__ static C value(C x) {
    return x / (C(1) + std::exp(-x));
  }
  template <class C>
  __device__ static C slope(C x) {
    const C s = sigmoid(x);
    return s * (C(1) + x * (C(1) - s));
  }
};
// x times the normal distribution's probability of less than x.
struct Gelu {
  template <class C>
  __device__ static C value(C x) {
    return x * C(0.5) * (C(1) + std::erf(x * C(0.70710678118654752440)));
  }
  template <class C>
  __device__ static C slope(C x) {
    const C less = C(0.5) * (C(1) + std::erf(x * C(0.70710678118654752440)));
    return less + x * (std::exp(x * x * C(-0.5)) * C(0.39894228040143267794));
  }
};
// x s with s = sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3), which is x (1 + tanh(u)) / 2.
struct GeluTanh {
  template <class C>
  __device__ static C gate(C x) {
    return sigmoid((x * x * x * C(0.044715) + x) * C(2 * 0.79788456080286535588));
  }
  template <class C>
  __device__ static C value(C x) {
    return x * gate(x);
  }
  template <class C>
  __device__ static C slope(C x) {
    const C s = gate(x), inner = (x * x * C(3 * 0.044715) + C(1)) * C(2 * 0.79788456080286535588);
    return s + x * s * (C(1) - s) * inner;
  }
};

template <class F, class C>
__device__ C result_of(C x, C g, bool backward) {
  return backward ? g * F::slope(x) : F::value(x);
}

template <class T, class F>
__global__ void __launch_bounds__(kThreads) activation_kernel(ActivationCall a, bool packed) {
  using C = Computed<T>;
  const T *x = static_cast<const T*>(a.x.data), *g = static_cast<const T*>(a.g.data);
  T* y = static_cast<T*>(a.y.data);
  const bool backward = g != nullptr;
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t first = thread * (packed ? kPack : 1);
  if (packed && first + kPack <= a.count) {
    const auto values = *reinterpret_cast<const Pack<T>*>(x + first);
    Pack<T> gradients = {};
    if (backward) gradients = *reinterpret_cast<const Pack<T>*>(g + first);
    Pack<T> results;
    for (int i = 0; i < kPack; ++i)
      results.values[i] = rounded<T>(result_of<F, C>(widen(values.values[i]), widen(gradients.values[i]), backward));
    *reinterpret_cast<Pack<T>*>(y + first) = results;
    return;
  }
  const int64_t last = packed ? first + kPack : first + 1;
  for (int64_t i = first; i < last && i < a.count; ++i) {
    const C gradient = backward ? widen(g[a.g.layout.at(i)]) : C(0);
    y[a.y.layout.at(i)] = rounded<T>(result_of<F, C>(widen(x[a.x.layout.at(i)]), gradient, backward));
  }
}

template <class T, class F>
void launch(const ActivationCall& call, cudaStream_t stream) {
  bool packed = true;
  for (const ActivationOperand& operand : {call.x, call.y, call.g})
    packed = packed && operand.layout.dense() && holds_packs(static_cast<const T*>(operand.data));
  const int64_t blocks = ceil_div(call.count, kThreads * (packed ? kPack : 1));
  PIPER_LAUNCH((activation_kernel<T, F>), grid_of(blocks), kThreads, 0, stream, call, packed);
}

}  // namespace

void launch_activation(const ActivationCall& call, cudaStream_t stream) {
  if (call.count == 0) return;
  by_floating_type(call.type, [&](auto type) {
    using T = typename decltype(type)::type;
    switch (call.activation) {
      case Activation::kSilu: return launch<T, Silu>(call, stream);
      case Activation::kGelu: return launch<T, Gelu>(call, stream);
      case Activation::kGeluTanh: return launch<T, GeluTanh>(call, stream);
    }
  });
}

}  // namespace piper::kernels::cuda
