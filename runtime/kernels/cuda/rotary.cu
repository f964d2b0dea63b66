// Rotary position embedding in the form that turns the halves of the last axis against each other: a thread turns one
// element of each half. A sum has two products as terms, as in runtime/kernels/rotary.cc, so the bits are the CPU's.
#include "runtime/kernels/cuda/rotary.h"

#include "runtime/kernels/cuda/device_code.h"

namespace piper::kernels::cuda {
namespace {

constexpr int kThreads = 256;

template <class T>
struct Pair {
  T &first, &second;
};
template <class T>
__device__ Pair<T> pair_of(const TurnedRows& rows, int64_t row, int64_t i, int64_t half) {
  T* data = static_cast<T*>(rows.data) + rows.row.at(row);
  return {data[i * rows.column], data[(half + i) * rows.column]};
}

// S: of the tables.
template <class T, class S>
__global__ void __launch_bounds__(kThreads) rotary_kernel(Rotary r) {
  using C = Computed<T>;
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (thread >= r.rows * r.half) return;
  const int64_t row = thread / r.half, i = thread % r.half;
  const auto x = pair_of<const T>(r.x, row, i, r.half);
  const auto cosine = pair_of<const S>(r.cosine, row, i, r.half), sine = pair_of<const S>(r.sine, row, i, r.half);
  const auto y = pair_of<T>(r.y, row, i, r.half);
  const C x1 = widen(x.first), x2 = widen(x.second), c1 = widen(cosine.first), c2 = widen(cosine.second),
          s1 = widen(sine.first), s2 = widen(sine.second);
  if (r.backward) {
    y.first = rounded<T>(x1 * c1 + x2 * s2);
    y.second = rounded<T>(x2 * c2 - x1 * s1);
  } else {
    y.first = rounded<T>(x1 * c1 - x2 * s1);
    y.second = rounded<T>(x2 * c2 + x1 * s2);
  }
}

}  // namespace

void launch_rotary(const Rotary& rotary, cudaStream_t stream) {
  const int64_t count = rotary.rows * rotary.half;
  if (count == 0) return;
  by_floating_type(rotary.type, [&](auto type) {
    using T = typename decltype(type)::type;
    const unsigned grid = grid_of(ceil_div(count, kThreads));
    if (rotary.table_type == rotary.type) PIPER_LAUNCH((rotary_kernel<T, T>), grid, kThreads, 0, stream, rotary);
    else PIPER_LAUNCH((rotary_kernel<T, Computed<T>>), grid, kThreads, 0, stream, rotary);
  });
}

}  // namespace piper::kernels::cuda
