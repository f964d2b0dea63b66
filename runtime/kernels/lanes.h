// Sixteen values at a time, in the vector types of g++ and clang: the row kernels of this folder are written on them,
// so that their order of operations is the same on every CPU and in the tail of a row. The sixteen are held in vectors
// that the CPU has: compilers make several times slower code of wider ones. Not a general SIMD library.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "runtime/kernels/clones.h"

namespace piper::kernels {

inline constexpr int kLanes = 16;

template <class T, int kBytes>
struct VectorOf {
  typedef T type __attribute__((vector_size(kBytes)));
};
template <class T, int kBytes>
using Vector = typename VectorOf<T, kBytes>::type;

// kBytes: of a vector, at most those of the lanes.
template <class T, int kBytes>
struct Lanes {
  static constexpr int kEach = kBytes / static_cast<int>(sizeof(T)), kParts = kLanes / kEach;
  Vector<T, kBytes> part[kParts] = {};

  T operator[](int lane) const { return part[lane / kEach][lane % kEach]; }
};

// exp(x) for x <= 88, relative error below 2e-7 in f32: Cephes' expf. Below -87 it is 1.6e-38.
template <class V>
PIPER_INLINE void exp_vector(V& x) {
  using Integers = decltype(x < x);
  if constexpr (sizeof(x[0]) == sizeof(double)) {
    for (int i = 0; i < static_cast<int>(sizeof(V) / sizeof(double)); ++i) x[i] = std::exp(x[i]);
  } else {
    const V low = x < -87.0f ? V{} - 87.0f : x;
    const V n = (low * 1.44269504088896341f + 12582912.0f) - 12582912.0f;
    const V r = (low - n * 0.693359375f) - n * -2.12194440e-4f;
    V y = r * 1.9875691500e-4f + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = y * r + 5.0000001201e-1f;
    y = y * (r * r) + r + 1.0f;
    const Integers exponent = (__builtin_convertvector(n, Integers) + 127) << 23;
    V power;
    std::memcpy(&power, &exponent, sizeof(power));
    x = y * power;
  }
}

// Reads lanes [i, i + 16) of a strided row; those at and after `count` become `rest`.
template <class T, int kBytes>
PIPER_INLINE void load_lanes(Lanes<T, kBytes>& out, const T* x, int64_t stride, int64_t i, int64_t count, T rest) {
  if (stride == 1 && i + kLanes <= count) {
    std::memcpy(out.part, x + i, sizeof(out.part));
    return;
  }
  T values[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) values[lane] = i + lane < count ? x[(i + lane) * stride] : rest;
  std::memcpy(out.part, values, sizeof(out.part));
}
// Writes the lanes of the elements before `count`; lane k is element i + k.
template <class T, int kBytes>
PIPER_INLINE void store_lanes(T* y, int64_t stride, int64_t i, int64_t count, const Lanes<T, kBytes>& lanes) {
  if (stride == 1 && i + kLanes <= count) {
    std::memcpy(y + i, lanes.part, sizeof(lanes.part));
    return;
  }
  for (int lane = 0; lane < kLanes && i + lane < count; ++lane) y[(i + lane) * stride] = lanes[lane];
}

// Lanes added in order.
template <class T, int kBytes>
PIPER_INLINE T sum_lanes(const Lanes<T, kBytes>& lanes) {
  T sum = 0;
  for (int lane = 0; lane < kLanes; ++lane) sum += lanes[lane];
  return sum;
}

}  // namespace piper::kernels
