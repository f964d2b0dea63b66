// Sixteen values at a time, in the vector types of g++ and clang: the row kernels of this folder are
// written on them, so that their order of operations is the same on every CPU and in the tail of a row.
// The compiler splits a lane vector into what the CPU has. Used inside PIPER_CLONES functions only; not a
// general SIMD library.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "runtime/kernels/clones.h"

namespace piper::kernels {

inline constexpr int kLanes = 16;

template <class T>
struct LanesOf;
template <>
struct LanesOf<float> {
  typedef float Values __attribute__((vector_size(64)));
  typedef int32_t Integers __attribute__((vector_size(64)));
};
template <>
struct LanesOf<double> {
  typedef double Values __attribute__((vector_size(128)));
  typedef int64_t Integers __attribute__((vector_size(128)));
};
template <class T>
using Lanes = typename LanesOf<T>::Values;

// exp(x) for x <= 88, relative error below 2e-7 in f32: Cephes' expf. Below -87 it is 1.6e-38.
PIPER_INLINE void exp_lanes(Lanes<float>& x) {
  const Lanes<float> low = x < -87.0f ? Lanes<float>{} - 87.0f : x;
  const Lanes<float> n = (low * 1.44269504088896341f + 12582912.0f) - 12582912.0f;
  const Lanes<float> r = (low - n * 0.693359375f) - n * -2.12194440e-4f;
  Lanes<float> y = r * 1.9875691500e-4f + 1.3981999507e-3f;
  y = y * r + 8.3334519073e-3f;
  y = y * r + 4.1665795894e-2f;
  y = y * r + 1.6666665459e-1f;
  y = y * r + 5.0000001201e-1f;
  y = y * (r * r) + r + 1.0f;
  const LanesOf<float>::Integers exponent = (__builtin_convertvector(n, LanesOf<float>::Integers) + 127) << 23;
  Lanes<float> power;
  std::memcpy(&power, &exponent, sizeof(power));
  x = y * power;
}
PIPER_INLINE void exp_lanes(Lanes<double>& x) {
  for (int lane = 0; lane < kLanes; ++lane) x[lane] = std::exp(x[lane]);
}

// Reads lanes [i, i + 16) of a strided row; those at and after `count` become `rest`.
template <class T>
PIPER_INLINE void load_lanes(Lanes<T>& out, const T* x, int64_t stride, int64_t i, int64_t count, T rest) {
  if (stride == 1 && i + kLanes <= count) {
    std::memcpy(&out, x + i, sizeof(out));
    return;
  }
  for (int lane = 0; lane < kLanes; ++lane) out[lane] = i + lane < count ? x[(i + lane) * stride] : rest;
}

// Lanes added in order.
template <class T>
PIPER_INLINE T sum_lanes(const Lanes<T>& lanes) {
  T sum = 0;
  for (int lane = 0; lane < kLanes; ++lane) sum += lanes[lane];
  return sum;
}

}  // namespace piper::kernels
