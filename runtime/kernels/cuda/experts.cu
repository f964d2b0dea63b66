#include "runtime/kernels/cuda/experts.h"

#include "runtime/kernels/cuda/by_bytes.h"
#include "runtime/kernels/cuda/device_code.h"
#include "runtime/kernels/cuda/group_rows.h"
#include "runtime/kernels/cuda/rank_in_block.h"
#include "runtime/kernels/cuda/report_fault.h"
#include "runtime/kernels/cuda/team_sum.h"

namespace piper::kernels::cuda {
namespace {

constexpr int kThreads = 256;

__device__ int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// ---- expert_order: one block an expert, so that nobody waits for another's part of a prefix sum

__global__ void __launch_bounds__(kThreads) count_experts_kernel(ExpertOrder o) {
  const int64_t expert = blockIdx.x;
  int64_t asked = 0;
  for (int64_t i = threadIdx.x; i < o.rows; i += kThreads) {
    const int64_t id = o.ids.data[i * o.ids.step];
    asked += id == expert ? 1 : 0;
    if (expert != 0 || (id >= 0 && id < o.experts)) continue;
    report(o.fault, FaultKind::kExpert, i, id, o.experts);
    if (o.position.data != nullptr) o.position.data[i * o.position.step] = -1;
  }
  asked = team_sum<kThreads>(asked);
  if (threadIdx.x == 0) o.asked[expert] = asked;
}

// Rows that do not find a place, of all experts.
__device__ void tell_dropped(const ExpertOrder& o) {
  int64_t lost = 0, fullest = 0;
  for (int64_t e = 0; e < o.experts; ++e) {
    if (o.asked[e] > o.capacity) lost += o.asked[e] - o.capacity;
    if (o.asked[e] > o.asked[fullest]) fullest = e;
  }
  if (o.dropped != nullptr) *o.dropped = lost;
  if (o.strict && lost > 0) report(o.fault, FaultKind::kCapacity, lost, o.rows, o.capacity, fullest, o.asked[fullest]);
}

__global__ void __launch_bounds__(kThreads) place_rows_kernel(ExpertOrder o) {
  const int64_t expert = blockIdx.x, per_segment = o.experts / o.segments, segment = expert / per_segment;
  int64_t start = segment * o.segment_rows;
  for (int64_t e = segment * per_segment; e < expert; ++e) start += least(o.asked[e], o.capacity);
  const int64_t taken = least(o.asked[expert], o.capacity), end = (segment + 1) * o.segment_rows;
  int64_t found = 0;
  for (int64_t first = 0; first < o.rows; first += kThreads) {
    const int64_t i = first + threadIdx.x;
    const bool mine = i < o.rows && o.ids.data[i * o.ids.step] == expert;
    const RankInBlock rank = rank_in_block<kThreads>(mine);
    const int64_t at = found + rank.before;
    if (mine && at < taken) o.order.data[(start + at) * o.order.step] = i;
    if (mine && o.position.data != nullptr) o.position.data[i * o.position.step] = at < taken ? start + at : -1;
    found += rank.all;
  }
  if (threadIdx.x == 0 && o.counts != nullptr)
    o.counts[segment * o.counts_segment + (expert - segment * per_segment) * o.counts_expert] = taken;
  if (expert == (segment + 1) * per_segment - 1)
    for (int64_t place = start + taken + threadIdx.x; place < end; place += kThreads)
      o.order.data[place * o.order.step] = -1;
  if (expert == 0 && threadIdx.x == 0) tell_dropped(o);
}

// ---- rows

template <class T>
__global__ void __launch_bounds__(kThreads) take_rows_kernel(TakeRows t) {
  const int64_t row = blockIdx.x;
  int64_t index = t.index.data[row * t.index.step];
  if (index < -1 || index >= t.indices) {
    if (threadIdx.x == 0) report(t.fault, FaultKind::kIndex, row, index, t.indices);
    index = -1;
  }
  T* y = static_cast<T*>(t.y.data) + row * t.y.row;
  const T* x = index < 0 ? nullptr : static_cast<const T*>(t.x.data) + index / t.repeat * t.x.row;
  for (int64_t c = threadIdx.x; c < t.columns; c += kThreads)
    y[t.y.column.at(c)] = x == nullptr ? T{} : x[t.x.column.at(c)];
}

template <class T>
__global__ void __launch_bounds__(kThreads) grouped_expand_kernel(GroupedExpand x) {
  const int64_t row = blockIdx.x, segment_rows = x.counts.rows / x.counts.segments, segment = row / segment_rows;
  int64_t left = segment_rows, before = row % segment_rows, expert = 0;
  for (; expert < x.counts.experts; ++expert) {
    const int64_t rows = rows_of_expert(x.counts, segment, expert, left);
    if (before < rows) break;
    before -= rows;
    left -= rows;
  }
  T* y = static_cast<T*>(x.y.data) + row * x.y.row;
  const bool padding = expert == x.counts.experts;
  const T* entry = padding ? nullptr : static_cast<const T*>(x.table.data) + expert * x.table.row;
  for (int64_t c = threadIdx.x; c < x.columns; c += kThreads)
    y[x.y.column.at(c)] = padding ? T{} : entry[x.table.column.at(c)];
}

// A thread adds one column of an expert's rows, in their order.
template <class T>
__global__ void __launch_bounds__(kThreads) grouped_sum_kernel(GroupedSum s) {
  using C = Computed<T>;
  const int64_t expert = blockIdx.y, column = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (column >= s.columns) return;
  const T* x = static_cast<const T*>(s.x.data) + s.x.column.at(column);
  T& cell = static_cast<T*>(s.sum.data)[expert * s.sum.row + s.sum.column.at(column)];
  C sum = s.from_sum ? C(widen(cell)) : C(0);
  for (int64_t segment = 0; segment < s.counts.segments; ++segment) {
    const RowRange range = range_of_expert(s.counts, segment, expert);
    for (int64_t row = range.first; row < range.first + range.count; ++row) sum += widen(x[row * s.x.row]);
  }
  cell = rounded<T>(s.accumulate && !s.from_sum ? widen(cell) + sum : sum);
}

}  // namespace

void launch_expert_order(const ExpertOrder& order, cudaStream_t stream) {
  PIPER_LAUNCH(count_experts_kernel, grid_of(order.experts), kThreads, 0, stream, order);
  PIPER_LAUNCH(place_rows_kernel, grid_of(order.experts), kThreads, 0, stream, order);
}

void launch_take_rows(const TakeRows& take, cudaStream_t stream) {
  if (take.rows == 0 || take.columns == 0) return;
  by_bytes(take.element_bytes, [&](auto type) {
    PIPER_LAUNCH((take_rows_kernel<typename decltype(type)::type>), grid_of(take.rows), kThreads, 0, stream, take);
  });
}

void launch_grouped_expand(const GroupedExpand& expand, cudaStream_t stream) {
  if (expand.counts.rows == 0 || expand.columns == 0) return;
  by_bytes(expand.element_bytes, [&](auto type) {
    PIPER_LAUNCH((grouped_expand_kernel<typename decltype(type)::type>), grid_of(expand.counts.rows), kThreads, 0,
                 stream, expand);
  });
}

void launch_grouped_sum(const GroupedSum& sum, cudaStream_t stream) {
  if (sum.columns == 0 || sum.counts.experts == 0) return;
  by_floating_type(sum.type, [&](auto type) {
    PIPER_LAUNCH((grouped_sum_kernel<typename decltype(type)::type>),
                 dim3(grid_of(ceil_div(sum.columns, kThreads)), grid_of(sum.counts.experts)), kThreads, 0, stream, sum);
  });
}

}  // namespace piper::kernels::cuda
