// A shim under which g++ compiles CUDA's .cu files as C++: their kernels run on the CPU, blocks as loops and the
// threads of a block as fibres (tests/shim/blocks.h). Names and meanings are those of the CUDA C++ Programming Guide;
// what is here is what runtime/kernels/cuda uses.
#pragma once

#include <cuda_runtime_api.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <tuple>
#include <utility>

#include "tests/shim/blocks.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__
// Blocks run one after the other: one place serves all of them.
#define __shared__ static

#define PIPER_LAUNCH(kernel, grid, block, shared, stream, ...)                                                  \
  ::piper::shim::launch({#kernel, grid, block, shared}, stream, [=, arguments = std::make_tuple(__VA_ARGS__)] { \
    std::apply([&](const auto&... each) { kernel(each...); }, arguments);                                       \
  })
#define PIPER_DYNAMIC_SHARED(type, name) type* const name = reinterpret_cast<type*>(::piper::shim::dynamic_shared())

using piper::shim::dim3;
using piper::shim::uint3;

// The place of the thread that runs.
#define threadIdx (::piper::shim::place().thread)
#define blockIdx (::piper::shim::place().block)
#define blockDim (::piper::shim::place().block_extent)
#define gridDim (::piper::shim::place().grid_extent)
inline constexpr int warpSize = 32;

inline cudaError_t cudaGetLastError() { return cudaSuccess; }

inline void __syncthreads(std::source_location where = std::source_location::current()) {
  piper::shim::wait_for_block(where);
}
inline void __syncwarp(unsigned mask = 0xffffffffu, std::source_location where = std::source_location::current()) {
  uint64_t nothing = 0;
  piper::shim::exchange(mask, nothing, where);
}

namespace piper::shim {
// The value that lane `from` gave.
template <class T>
T shuffle(unsigned mask, T value, int from, std::source_location where) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  const Exchanged& lanes = exchange(mask, bits, where);
  if ((mask >> from & 1) == 0) fail("a shuffle reads lane ", from, ", which takes no part", where);
  std::memcpy(&value, &lanes.bits[from], sizeof value);
  return value;
}
}  // namespace piper::shim

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int = 32,
                  std::source_location where = std::source_location::current()) {
  return piper::shim::shuffle(mask, value, (piper::shim::lane() ^ lanes) & 31, where);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned lanes, int = 32,
                   std::source_location where = std::source_location::current()) {
  const int from = piper::shim::lane() + static_cast<int>(lanes);
  return piper::shim::shuffle(mask, value, from < 32 ? from : piper::shim::lane(), where);
}
template <class T>
T __shfl_sync(unsigned mask, T value, int from, int = 32,
              std::source_location where = std::source_location::current()) {
  return piper::shim::shuffle(mask, value, from & 31, where);
}
inline unsigned __ballot_sync(unsigned mask, bool predicate,
                              std::source_location where = std::source_location::current()) {
  const auto& lanes = piper::shim::exchange(mask, predicate ? 1 : 0, where);
  unsigned result = 0;
  for (int i = 0; i < 32; ++i) result |= static_cast<unsigned>((mask >> i & 1) != 0 && lanes.bits[i] != 0) << i;
  return result;
}
inline int __popc(unsigned x) { return std::popcount(x); }

inline unsigned atomicCAS(unsigned* place, unsigned expected, unsigned value) {
  __atomic_compare_exchange_n(place, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return expected;
}
inline unsigned atomicAdd(unsigned* place, unsigned value) {
  return __atomic_fetch_add(place, value, __ATOMIC_SEQ_CST);
}
