#include "runtime/kernels/cuda/running_sum.h"

#include "runtime/kernels/cuda/element_sum.h"

namespace piper::kernels::cuda {
namespace {

constexpr int kThreads = 256;
// Neighbours that a thread adds up at a time.
constexpr int kEach = 4;

// A block a line, a tile of it at a time.
template <class T>
__global__ void __launch_bounds__(kThreads) running_sum_kernel(RunningSum s) {
  __shared__ Sum<T> sums[kThreads];
  const T* x = static_cast<const T*>(s.x) + s.x_line.at(blockIdx.x);
  T* y = static_cast<T*>(s.y) + s.y_line.at(blockIdx.x);
  const int thread = static_cast<int>(threadIdx.x);
  Sum<T> of_tiles = {};
  for (int64_t tile = 0; tile < s.steps; tile += kThreads * kEach) {
    const int64_t first = tile + thread * kEach;
    Sum<T> mine[kEach] = {}, all = {};
    for (int k = 0; k < kEach; ++k)
      if (first + k < s.steps) mine[k] = all = plus<T>(all, x[(first + k) * s.x_step]);
    sums[thread] = all;
    __syncthreads();
    for (int distance = 1; distance < kThreads; distance *= 2) {
      const Sum<T> before = thread >= distance ? sums[thread - distance] : Sum<T>();
      __syncthreads();
      if (thread >= distance) sums[thread] = sum_of<T>(before, sums[thread]);
      __syncthreads();
    }
    const Sum<T> before = thread > 0 ? sum_of<T>(of_tiles, sums[thread - 1]) : of_tiles;
    for (int k = 0; k < kEach; ++k)
      if (first + k < s.steps) y[(first + k) * s.y_step] = element<T>(sum_of<T>(before, mine[k]));
    of_tiles = sum_of<T>(of_tiles, sums[kThreads - 1]);
    __syncthreads();  // read before the next tile writes
  }
}

}  // namespace

void launch_running_sum(const RunningSum& sum, cudaStream_t stream) {
  if (sum.lines == 0 || sum.steps == 0) return;
  by_type(sum.type, [&](auto type) {
    PIPER_LAUNCH((running_sum_kernel<typename decltype(type)::type>), grid_of(sum.lines), kThreads, 0, stream, sum);
  });
}

}  // namespace piper::kernels::cuda
