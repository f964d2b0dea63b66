#include "runtime/kernels/cuda/indexing.h"

#include <type_traits>

#include "runtime/kernels/cuda/by_bytes.h"
#include "runtime/kernels/cuda/element_sum.h"
#include "runtime/kernels/cuda/rank_in_block.h"
#include "runtime/kernels/cuda/report_fault.h"
#include "runtime/kernels/cuda/team_sum.h"

namespace piper::kernels::cuda {
namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void __launch_bounds__(kThreads) look_up_kernel(LookUp l) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= l.count) return;
  const int64_t at = l.index[l.index_layout.at(i)], own = at - l.part.first();
  const int64_t all = l.part.place == nullptr ? l.extent : l.part.whole;
  T value = {};
  if (at < 0 || at >= all) report(l.fault, l.fault_kind, i, at, all);
  else if (own >= 0 && own < l.extent) value = static_cast<const T*>(l.x)[l.x_layout.at(i) + own * l.x_step];
  static_cast<T*>(l.y)[l.y_layout.at(i)] = value;
}

template <class T>
__global__ void __launch_bounds__(kThreads) scatter_kernel(Scatter s) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= s.lines * s.steps) return;
  const int64_t line = i / s.steps, step = i % s.steps;
  const int64_t* index = s.index + s.index_line.at(line);
  const int64_t at = index[step * s.index_step];
  if (at < 0 || at >= s.extent) {
    report(s.fault, FaultKind::kIndex, i, at, s.extent);
    return;
  }
  const T* source = static_cast<const T*>(s.source) + s.source_line.at(line);
  T& y = static_cast<T*>(s.y)[s.y_line.at(line) + at * s.y_step];
  if (!s.adds) {
    for (int64_t later = step + 1; later < s.steps; ++later)
      if (index[later * s.index_step] == at) return;
    y = source[step * s.source_step];
    return;
  }
  for (int64_t earlier = 0; earlier < step; ++earlier)
    if (index[earlier * s.index_step] == at) return;
  Sum<T> sum = summand(y);
  for (int64_t later = step; later < s.steps; ++later)
    if (index[later * s.index_step] == at) sum = plus<T>(sum, source[later * s.source_step]);
  y = element<T>(sum);
}

// Columns that a thread adds up at a time.
constexpr int kColumns = 4;

template <class T>
__global__ void __launch_bounds__(kThreads) add_rows_kernel(AddRows a) {
  __shared__ int64_t rows[kThreads];
  const int64_t first = blockIdx.x, at = a.index[a.index_row.at(first)], own = at - a.part.first();
  const int64_t whole = a.part.place == nullptr ? a.extent : a.part.whole;
  if (at < 0 || at >= whole) {
    if (threadIdx.x == 0) report(a.fault, FaultKind::kIndex, first, at, whole);
    return;
  }
  if (at == a.padding || own < 0 || own >= a.extent) return;
  int earlier = 0, all = 0;
  for (int64_t row = threadIdx.x; row < first; row += kThreads)
    if (a.index[a.index_row.at(row)] == at) earlier = 1;
  if (team_max<kThreads>(earlier) != 0) return;
  if (a.by_frequency) {
    for (int64_t row = first + threadIdx.x; row < a.rows; row += kThreads)
      all += a.index[a.index_row.at(row)] == at ? 1 : 0;
    all = team_sum<kThreads>(all);
  }
  const auto factor = static_cast<Sum<T>>(all > 0 ? 1.0 / all : 1.0);
  T* y = static_cast<T*>(a.y) + own * a.y_step;
  for (int64_t begin = threadIdx.x; begin - threadIdx.x < a.columns; begin += kThreads * kColumns) {
    Sum<T> sums[kColumns];
    for (int k = 0; k < kColumns; ++k)
      if (const int64_t column = begin + k * kThreads; column < a.columns) sums[k] = summand(y[a.y_column.at(column)]);
    for (int64_t tile = first; tile < a.rows; tile += kThreads) {
      const int64_t row = tile + threadIdx.x;
      const bool mine = row < a.rows && a.index[a.index_row.at(row)] == at;
      const RankInBlock rank = rank_in_block<kThreads>(mine);
      if (mine) rows[rank.before] = row;
      __syncthreads();
      for (int i = 0; i < rank.all; ++i) {
        const T* source = static_cast<const T*>(a.source) + a.source_row.at(rows[i]);
        for (int k = 0; k < kColumns; ++k)
          if (const int64_t column = begin + k * kThreads; column < a.columns) {
            const T value = source[a.source_column.at(column)];
            if constexpr (std::is_same_v<T, bool>) sums[k] = plus<T>(sums[k], value);
            else sums[k] = static_cast<Sum<T>>(sums[k] + summand(value) * factor);
          }
      }
    }
    for (int k = 0; k < kColumns; ++k)
      if (const int64_t column = begin + k * kThreads; column < a.columns)
        y[a.y_column.at(column)] = element<T>(sums[k]);
  }
}

}  // namespace

void launch_look_up(const LookUp& look_up, cudaStream_t stream) {
  if (look_up.count == 0) return;
  by_bytes(look_up.element_bytes, [&](auto type) {
    PIPER_LAUNCH((look_up_kernel<typename decltype(type)::type>), grid_of(ceil_div(look_up.count, kThreads)), kThreads,
                 0, stream, look_up);
  });
}

void launch_scatter(const Scatter& scatter, cudaStream_t stream) {
  const int64_t count = scatter.lines * scatter.steps;
  if (count == 0) return;
  by_type(scatter.type, [&](auto type) {
    PIPER_LAUNCH((scatter_kernel<typename decltype(type)::type>), grid_of(ceil_div(count, kThreads)), kThreads, 0,
                 stream, scatter);
  });
}

void launch_add_rows(const AddRows& add, cudaStream_t stream) {
  if (add.rows == 0 || add.columns == 0) return;
  by_type(add.type, [&](auto type) {
    PIPER_LAUNCH((add_rows_kernel<typename decltype(type)::type>), grid_of(add.rows), kThreads, 0, stream, add);
  });
}

}  // namespace piper::kernels::cuda
