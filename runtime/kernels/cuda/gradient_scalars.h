// Launches of scalars that are made of gradients or say how updates take them. All pointers are of the device.
#pragma once

#include <cstdint>

#include "runtime/kernels/cuda/layout.h"
#include "schemas/plan/dtype.h"

typedef struct CUstream_st* cudaStream_t;

namespace piper::kernels::cuda {

// Parts of a sum, one a block: how many depends on the number of elements alone.
inline constexpr int64_t kMostParts = 512;

struct GradientElements {
  const void* data = nullptr;
  DType type = DType::kF32;
  Layout layout;
  int64_t count = 0;
};
// out = sum of squares, added up in double, or out += it. `parts` [kMostParts].
void launch_square_sum(const GradientElements& x, double* parts, float* out, bool accumulate, cudaStream_t stream);
// out = 1 where an element is not finite, else 0, or out += it. `parts` [kMostParts].
void launch_overflows(const GradientElements& x, float* parts, float* out, bool accumulate, cudaStream_t stream);

// norm, factor: nullptr where nobody asks. `loss_scale`: nullptr: 1.
struct ClipScale {
  const float* sums = nullptr;
  Layout layout;
  int64_t count = 0;
  const float* loss_scale = nullptr;
  float limit = 0;
  float *norm = nullptr, *factor = nullptr;
};
void launch_clip_scale(const ClipScale& clip, cudaStream_t stream);
void launch_unscale(float* factor, const float* loss_scale, cudaStream_t stream);

// `overflow`: nullptr: none.
void launch_advance(int64_t* count, const float* overflow, cudaStream_t stream);
void launch_advance_loss_scale(float* scale, int64_t* good, const float* overflow, bool dynamic, cudaStream_t stream);

}  // namespace piper::kernels::cuda
