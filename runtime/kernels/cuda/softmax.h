// Launches of softmax, log_softmax and their gradients along one axis: rows are all other axes.
#pragma once

#include <cstdint>

#include "runtime/kernels/cuda/layout.h"
#include "schemas/plan/dtype.h"

typedef struct CUstream_st* cudaStream_t;

namespace piper::kernels::cuda {

struct SoftmaxOperand {
  void* data = nullptr;
  Layout row, column;
};
struct Softmax {
  bool logarithm = false;
  DType type = DType::kF32;
  int64_t rows = 0, columns = 0;
  SoftmaxOperand x, g, y;  // forward: x to y; backward: g and the forward's result x to y
};
void launch_softmax(const Softmax& softmax, cudaStream_t stream);
void launch_softmax_backward(const Softmax& softmax, cudaStream_t stream);

}  // namespace piper::kernels::cuda
