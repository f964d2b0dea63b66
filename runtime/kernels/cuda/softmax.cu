#include "runtime/kernels/cuda/softmax.h"

#include <cmath>

#include "runtime/kernels/cuda/device_code.h"
#include "runtime/kernels/cuda/row_elements.h"
#include "runtime/kernels/cuda/team_sum.h"

namespace piper::kernels::cuda {
namespace {

struct Packed {
  bool x, g, y;
};
template <class T>
__device__ RowOf<T> row_of(const SoftmaxOperand& operand, int64_t row, int64_t columns, bool packed) {
  return {static_cast<T*>(operand.data) + operand.row.at(row), operand.column, columns, packed};
}

template <class T, int kTeam>
__global__ void __launch_bounds__(kBlockTeam) softmax_kernel(Softmax s, Packed packed) {
  using C = Computed<T>;
  const int64_t row = row_of_team();
  if (row >= s.rows) return;
  const auto x = row_of<T>(s.x, row, s.columns, packed.x), y = row_of<T>(s.y, row, s.columns, packed.y);
  const C lowest = -INFINITY;
  C top = lowest, sum = 0, values[kPack];
  for (int64_t c = threadIdx.x * kPack; c < s.columns; c += kTeam * kPack) {
    x.read(c, lowest, values);
    for (int i = 0; i < kPack; ++i) top = values[i] > top ? values[i] : top;
  }
  top = team_max<kTeam>(top);
  for (int64_t c = threadIdx.x * kPack; c < s.columns; c += kTeam * kPack) {
    x.read(c, lowest, values);
    for (int i = 0; i < kPack; ++i)
      if (c + i < s.columns) sum += std::exp(values[i] - top);
  }
  sum = team_sum<kTeam>(sum);
  const C log_sum = s.logarithm ? std::log(sum) : C(0);
  for (int64_t c = threadIdx.x * kPack; c < s.columns; c += kTeam * kPack) {
    x.read(c, lowest, values);
    for (int i = 0; i < kPack; ++i)
      values[i] = s.logarithm ? values[i] - top - log_sum : std::exp(values[i] - top) / sum;
    y.write(c, values);
  }
}

// softmax: dx = y (g - sum(g y)); log_softmax: dx = g - exp(y) sum(g).
template <class T, int kTeam>
__global__ void __launch_bounds__(kBlockTeam) softmax_backward_kernel(Softmax s, Packed packed) {
  using C = Computed<T>;
  const int64_t row = row_of_team();
  if (row >= s.rows) return;
  const auto y = row_of<T>(s.x, row, s.columns, packed.x), g = row_of<T>(s.g, row, s.columns, packed.g),
             dx = row_of<T>(s.y, row, s.columns, packed.y);
  C values[kPack], gradient[kPack], sum = 0;
  for (int64_t c = threadIdx.x * kPack; c < s.columns; c += kTeam * kPack) {
    y.read(c, C(0), values);
    g.read(c, C(0), gradient);
    for (int i = 0; i < kPack; ++i) sum += s.logarithm ? gradient[i] : gradient[i] * values[i];
  }
  sum = team_sum<kTeam>(sum);
  for (int64_t c = threadIdx.x * kPack; c < s.columns; c += kTeam * kPack) {
    y.read(c, C(0), values);
    g.read(c, C(0), gradient);
    for (int i = 0; i < kPack; ++i)
      values[i] = s.logarithm ? gradient[i] - std::exp(values[i]) * sum : values[i] * (gradient[i] - sum);
    dx.write(c, values);
  }
}

template <class T>
Packed packed_of(const Softmax& s) {
  const auto of = [&](const SoftmaxOperand& o) { return rows_hold_packs<T>(o.data, o.row, o.column, s.columns); };
  return {of(s.x), of(s.g), of(s.y)};
}

}  // namespace

void launch_softmax(const Softmax& s, cudaStream_t stream) {
  by_floating_type(s.type, [&](auto type) {
    using T = typename decltype(type)::type;
    by_team(s.rows, s.columns, [&](auto team, unsigned grid, dim3 block) {
      PIPER_LAUNCH((softmax_kernel<T, decltype(team)::value>), grid, block, 0, stream, s, packed_of<T>(s));
    });
  });
}

void launch_softmax_backward(const Softmax& s, cudaStream_t stream) {
  by_floating_type(s.type, [&](auto type) {
    using T = typename decltype(type)::type;
    by_team(s.rows, s.columns, [&](auto team, unsigned grid, dim3 block) {
      PIPER_LAUNCH((softmax_backward_kernel<T, decltype(team)::value>), grid, block, 0, stream, s, packed_of<T>(s));
    });
  });
}

}  // namespace piper::kernels::cuda
