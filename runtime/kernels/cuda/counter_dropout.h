// Launch of counter-based dropout (runtime/kernels/dropout.h says what a mask is).
#pragma once

#include <cstdint>

#include "runtime/kernels/cuda/layout.h"
#include "schemas/plan/dtype.h"

typedef struct CUstream_st* cudaStream_t;

namespace piper::kernels::cuda {

// x and y of [outer, batch, inner] elements on the device; they may be the same.
struct Dropout {
  DType type = DType::kF32;
  int64_t outer = 0, batch = 0, inner = 0;
  const void* x = nullptr;
  void* y = nullptr;
  Layout x_layout, y_layout;
  uint64_t key = 0;
  uint32_t threshold = 0;  // an element is kept from here on
  double scale = 1;        // of what is kept
  const int64_t *seed_and_step = nullptr, *first_sample = nullptr;
  // For a part of a tensor (runtime/kernels/dropout.h): so many places, each with `row` elements in a row, and which
  // this is; nullptr: it is the whole.
  struct {
    int64_t places = 1, row = 1;
  } part;
  const int64_t* place = nullptr;
};
void launch_dropout(const Dropout& dropout, cudaStream_t stream);

}  // namespace piper::kernels::cuda
