// Sums and maxima over the threads that work on one row: a warp, or all threads of a block. Added in one fixed order,
// and every thread gets the same bits. For .cu files.
#pragma once

#include "runtime/kernels/cuda/device_code.h"

namespace piper::kernels::cuda {

struct Add {
  template <class T>
  __device__ static T of(T a, T b) {
    return a + b;
  }
};
struct Largest {
  template <class T>
  __device__ static T of(T a, T b) {
    return a > b ? a : b;
  }
};

// kTeam: 32, a warp whose lanes are all here, or the number of threads of the block, all of which are here.
template <class Operation, int kTeam, class T>
__device__ T over_team(T value) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2)
    value = Operation::of(value, __shfl_xor_sync(kAllLanes, value, offset));
  if constexpr (kTeam == kWarp) {
    return value;
  } else {
    __shared__ T of_warps[kTeam / kWarp];
    __syncthreads();  // what was left here by the last call has been read
    if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = value;
    __syncthreads();
    T result = of_warps[0];
    for (int warp = 1; warp < kTeam / kWarp; ++warp) result = Operation::of(result, of_warps[warp]);
    return result;
  }
}
template <int kTeam, class T>
__device__ T team_sum(T value) {
  return over_team<Add, kTeam>(value);
}
template <int kTeam, class T>
__device__ T team_max(T value) {
  return over_team<Largest, kTeam>(value);
}

}  // namespace piper::kernels::cuda
