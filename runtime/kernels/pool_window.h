// The windows of two-dimensional pooling, as calls on every device have them.
#pragma once

#include <cstdint>
#include <vector>

namespace piper::kernels {

class CallReader;

// Per spatial axis, [height, width]: window i reaches the elements i * stride - padding + k * dilation, 0 <= k <
// kernel, of which those outside of the operand are none.
struct PoolWindow {
  int64_t kernel[2] = {1, 1}, stride[2] = {1, 1}, padding[2] = {0, 0}, dilation[2] = {1, 1};
  bool ceil_mode = false;

  // For an operand of this shape, [N, C, H, W] or [C, H, W]; extents follow LibTorch's pooling_output_shape. Refuses
  // operands of another rank.
  std::vector<int64_t> pooled(std::vector<int64_t> shape) const;
};
// Refuses attributes that are no window, and dilation where it is not `dilated`.
PoolWindow read_pool_window(const CallReader& call, bool dilated);

}  // namespace piper::kernels
