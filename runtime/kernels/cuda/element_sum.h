// Sums of elements of any type: floating-point ones in what they are computed in, whole numbers as they are, bools as
// "or". For .cu files.
#pragma once

#include <type_traits>

#include "runtime/kernels/cuda/device_code.h"

namespace piper::kernels::cuda {

// What elements of T are added up in.
template <class T>
using Sum = std::conditional_t<std::is_integral_v<T>, T, Computed<T>>;
template <class T>
__device__ Sum<T> summand(T x) {
  if constexpr (std::is_integral_v<T>) return x;
  else return widen(x);
}
template <class T>
__device__ Sum<T> sum_of(Sum<T> a, Sum<T> b) {
  if constexpr (std::is_same_v<T, bool>) return a || b;
  else return static_cast<Sum<T>>(a + b);
}
template <class T>
__device__ Sum<T> plus(Sum<T> sum, T x) {
  return sum_of<T>(sum, summand(x));
}
template <class T>
__device__ T element(Sum<T> sum) {
  if constexpr (std::is_integral_v<T>) return sum;
  else return rounded<T>(sum);
}

}  // namespace piper::kernels::cuda
