// Launches of silu and gelu and their gradients, element by element.
#pragma once

#include <cstdint>

#include "runtime/kernels/cuda/layout.h"
#include "schemas/plan/dtype.h"

typedef struct CUstream_st* cudaStream_t;

namespace piper::kernels::cuda {

enum class Activation : int32_t { kSilu, kGelu, kGeluTanh };

// For one shape, on the device; y may be x or g.
struct ActivationOperand {
  void* data = nullptr;
  Layout layout;
};
struct ActivationCall {
  Activation activation = Activation::kSilu;
  DType type = DType::kF32;
  int64_t count = 0;
  ActivationOperand x, y;
  ActivationOperand g;  // with it, y = g f'(x), else y = f(x)
};
void launch_activation(const ActivationCall& call, cudaStream_t stream);

}  // namespace piper::kernels::cuda
