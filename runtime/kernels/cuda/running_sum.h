// Sums of all elements up to each one, along one axis: cumsum. Added in an order that the number of elements gives
// alone: the same bits in every run, which LibTorch does not promise of floating-point numbers.
#pragma once

#include <cstdint>

#include "runtime/kernels/cuda/layout.h"
#include "schemas/plan/dtype.h"

typedef struct CUstream_st* cudaStream_t;

namespace piper::kernels::cuda {

struct RunningSum {
  DType type = DType::kF32;
  int64_t lines = 0, steps = 0;  // `steps` elements along the axis are a line
  void* y = nullptr;
  const void* x = nullptr;
  Layout y_line, x_line;
  int64_t y_step = 0, x_step = 0;
};
void launch_running_sum(const RunningSum& sum, cudaStream_t stream);

}  // namespace piper::kernels::cuda
