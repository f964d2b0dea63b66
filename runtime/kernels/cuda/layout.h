// Where the elements of a strided operand lie: plain numbers that kernels take by value.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define PIPER_ANYWHERE __host__ __device__
#else
#define PIPER_ANYWHERE
#endif
#ifdef __CUDA_ARCH__
#define PIPER_NOT_UNROLLED _Pragma("unroll 1")
#else
#define PIPER_NOT_UNROLLED
#endif

namespace piper::kernels::cuda {

inline constexpr int kMaxAxes = 8;

// Axes from the outermost on, strides in elements, 0 where one element stands for all. Always at least one axis.
struct Layout {
  int32_t axes = 1;
  bool wide = false;  // 32 bits do not count its elements
  int64_t extent[kMaxAxes] = {1}, stride[kMaxAxes] = {1};

  bool dense() const { return axes == 1 && stride[0] == 1; }
  // For element `index`, counted row-major.
  PIPER_ANYWHERE int64_t at(int64_t index) const {
    if (axes == 1) return index * stride[0];
    // Division of 64 bits is slow on a GPU.
    return wide ? split(static_cast<uint64_t>(index)) : split(static_cast<uint32_t>(index));
  }

 private:
  template <class Index>
  PIPER_ANYWHERE int64_t split(Index index) const {
    int64_t place = 0;
    PIPER_NOT_UNROLLED
    for (int axis = axes - 1; axis > 0; --axis) {
      const auto length = static_cast<Index>(extent[axis]);
      const Index next = index / length;
      place += static_cast<int64_t>(index - next * length) * stride[axis];
      index = next;
    }
    return place + static_cast<int64_t>(index) * stride[0];
  }
};

}  // namespace piper::kernels::cuda
