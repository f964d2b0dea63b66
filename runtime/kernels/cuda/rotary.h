// Launch of the rotary position embedding and its gradient.
#pragma once

#include <cstdint>

#include "runtime/kernels/cuda/layout.h"
#include "schemas/plan/dtype.h"

typedef struct CUstream_st* cudaStream_t;

namespace piper::kernels::cuda {

// Rows of 2 * half elements, `column` elements apart, on the device.
struct TurnedRows {
  void* data = nullptr;
  Layout row;
  int64_t column = 1;
};
struct Rotary {
  bool backward = false;
  DType type = DType::kF32, table_type = DType::kF32;  // of x and y; of the tables
  int64_t rows = 0, half = 0;
  TurnedRows x, y;  // may be the same
  TurnedRows cosine, sine;
};
void launch_rotary(const Rotary& rotary, cudaStream_t stream);

}  // namespace piper::kernels::cuda
