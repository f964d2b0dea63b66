// Launches of layer_norm (centred) and rms_norm (not), and their gradients. Rows are all but the last axes, columns the
// last ones.
#pragma once

#include <cstdint>

#include "runtime/kernels/cuda/layout.h"
#include "schemas/plan/dtype.h"

typedef struct CUstream_st* cudaStream_t;

namespace piper::kernels::cuda {

// A matrix on the device; absent where `data` is nullptr. For weights `row` is unused.
struct Matrix {
  void* data = nullptr;
  Layout row, column;
};

struct Norm {
  bool centred = false;
  DType type = DType::kF32;
  int64_t rows = 0, columns = 0;
  double eps = 0;
  Matrix x, weight, bias;
  Matrix y;                                // the result: y, or dx
  Matrix g;                                // the gradient of y
  float *mean = nullptr, *rstd = nullptr;  // [rows]; nullptr where the forward's reader has none
};
void launch_norm(const Norm& norm, cudaStream_t stream);
// x and rstd (and mean) of the forward. f64 takes its own statistics: the saved ones are f32.
void launch_norm_backward_input(const Norm& norm, cudaStream_t stream);

// Parts of a sum over rows that are taken apart, at most kMostPartBytes in all; a function of the extents alone.
inline constexpr int64_t kMostPartBytes = 32 * 1024;
int64_t norm_weight_parts(const Norm& norm);
// dw = sum over rows of g times the normalised x, db = that of g; either may be absent. `parts`:
// [2, norm_weight_parts, columns] of the type that is computed in.
struct NormWeights {
  Norm norm;
  Matrix dw, db;
  bool accumulate = false;
  void* parts = nullptr;
};
void launch_norm_backward_weight(const NormWeights& weights, cudaStream_t stream);

}  // namespace piper::kernels::cuda
