// The gradient of max pooling. Each element adds up the gradients of the windows that chose it, in the windows' order:
// the same bits in every run, which LibTorch does not promise.
#pragma once

#include <cstdint>

#include "runtime/kernels/cuda/layout.h"
#include "runtime/kernels/pool_window.h"
#include "schemas/plan/dtype.h"

typedef struct CUstream_st* cudaStream_t;

namespace piper::kernels::cuda {

struct MaxPoolBackward {
  DType type = DType::kF32;
  int64_t count = 0;  // elements of dx
  int64_t height = 0, width = 0, pooled_height = 0, pooled_width = 0;
  PoolWindow window;
  void* dx = nullptr;
  const void* g = nullptr;
  const int64_t* indices = nullptr;  // within [height, width], of which element a window chose
  Layout dx_layout, g_layout, indices_layout;
};
void launch_max_pool_backward(const MaxPoolBackward& backward, cudaStream_t stream);

}  // namespace piper::kernels::cuda
