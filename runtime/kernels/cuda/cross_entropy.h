// Launches of the cross entropy's sum, gradient and count, and of the same of logarithms of probabilities (nll). Rows
// are the targets in row-major order.
#pragma once

#include <cstdint>

#include "runtime/kernels/cuda/fault.h"
#include "runtime/kernels/cuda/layout.h"
#include "runtime/kernels/cuda/own_part.h"
#include "schemas/plan/dtype.h"

typedef struct CUstream_st* cudaStream_t;

namespace piper::kernels::cuda {

// Parts of the loss, one a block: how many depends on the number of rows alone.
inline constexpr int64_t kMostLossParts = 1024;

// All pointers are of the device.
struct CrossEntropy {
  DType type = DType::kF32;
  int64_t rows = 0, classes = 0;
  const void* logits = nullptr;
  Layout row, of_class;
  void* gradient = nullptr;  // of the logits; may be the logits themselves
  Layout gradient_row, gradient_class;
  const int64_t* target = nullptr;
  Layout target_row;
  const void* weight = nullptr;  // of the classes, in the logits' type; nullptr: 1
  int64_t weight_stride = 1;
  int64_t ignore_index = 0;
  double smoothing = 0;
  float* lse = nullptr;  // [rows]; nullptr: not kept
  // Of a part of the classes; lse is then of the type that rows are computed in.
  PlaceOfPart part;
  void* stats =
      nullptr;  // [rows, places, 2] of that type: log-sum-exp of each place's classes, the target's logit or 0
  int64_t places = 1;
  void* part_lse = nullptr;  // lse of that type
  // The loss, or the gradient of the loss: a scalar of a floating-point type.
  void* scalar = nullptr;
  DType scalar_type = DType::kF32;
  bool accumulate = false;
  double* parts = nullptr;  // [kMostLossParts]
  FaultPlace fault;
};
void launch_cross_entropy_sum(const CrossEntropy& c, cudaStream_t stream);
// Reads lse; f64 takes its own, the saved one is f32.
void launch_cross_entropy_backward(const CrossEntropy& c, cudaStream_t stream);
// For a part: stats of this place, zeros for the others; the loss of the stats of all; the gradient of the part's
// logits.
void launch_row_lse(const CrossEntropy& c, cudaStream_t stream);
void launch_merged_loss(const CrossEntropy& c, cudaStream_t stream);
void launch_own_gradient(const CrossEntropy& c, cudaStream_t stream);
// scalar = targets that count, or the sum of their classes' weights (of `type`).
void launch_cross_entropy_count(const CrossEntropy& c, cudaStream_t stream);

// -sum w_t x_t, of logarithms x; and its gradient, of which only the targets' elements are written: others are zero.
void launch_nll_sum(const CrossEntropy& c, cudaStream_t stream);
void launch_nll_backward(const CrossEntropy& c, cudaStream_t stream);

}  // namespace piper::kernels::cuda
