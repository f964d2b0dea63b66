#include "runtime/kernels/cuda/pooling.h"

#include "runtime/kernels/cuda/device_code.h"

namespace piper::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// The windows [first, end) of one axis that can have chosen element `at`.
struct Windows {
  int64_t first, end;
};
__device__ inline Windows windows_of(int64_t at, int64_t pooled, int64_t kernel, int64_t stride, int64_t padding,
                                     int64_t dilation) {
  const int64_t last = at + padding, reach = last - (kernel - 1) * dilation;
  const int64_t first = reach > 0 ? (reach + stride - 1) / stride : 0, end = last / stride + 1;
  return {first, end < pooled ? end : pooled};
}

template <class T>
__global__ void __launch_bounds__(kThreads) max_pool_backward_kernel(MaxPoolBackward b) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= b.count) return;
  const int64_t plane = i / (b.height * b.width), place = i - plane * (b.height * b.width);
  const PoolWindow& w = b.window;
  const Windows rows =
      windows_of(place / b.width, b.pooled_height, w.kernel[0], w.stride[0], w.padding[0], w.dilation[0]);
  const Windows columns =
      windows_of(place % b.width, b.pooled_width, w.kernel[1], w.stride[1], w.padding[1], w.dilation[1]);
  Computed<T> sum = 0;
  for (int64_t row = rows.first; row < rows.end; ++row)
    for (int64_t column = columns.first; column < columns.end; ++column) {
      const int64_t window = (plane * b.pooled_height + row) * b.pooled_width + column;
      if (b.indices[b.indices_layout.at(window)] == place)
        sum = sum + widen(static_cast<const T*>(b.g)[b.g_layout.at(window)]);
    }
  static_cast<T*>(b.dx)[b.dx_layout.at(i)] = rounded<T>(sum);
}

}  // namespace

void launch_max_pool_backward(const MaxPoolBackward& b, cudaStream_t stream) {
  if (b.count == 0) return;
  by_floating_type(b.type, [&](auto type) {
    PIPER_LAUNCH((max_pool_backward_kernel<typename decltype(type)::type>), grid_of(ceil_div(b.count, kThreads)),
                 kThreads, 0, stream, b);
  });
}

}  // namespace piper::kernels::cuda
