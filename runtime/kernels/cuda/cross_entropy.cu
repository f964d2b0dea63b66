// Cross entropy: one pass over a row's logits forward, one backward, no probabilities kept between. With smoothing e, C
// classes, class weights w (1 where absent), x the logits of a row and t its target:
//   loss = (1 - e) w_t (lse - x_t) + e / C sum_c w_c (lse - x_c)
#include "runtime/kernels/cuda/cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "runtime/kernels/cuda/device_code.h"
#include "runtime/kernels/cuda/report_fault.h"
#include "runtime/kernels/cuda/row_elements.h"
#include "runtime/kernels/cuda/team_sum.h"

namespace piper::kernels::cuda {
namespace {

constexpr int kThreads = 256;
// Classes of a row that one block of the backward writes.
constexpr int64_t kClassesOfBlock = kThreads * kPack * 4;

// The class of a row, of those of all places, or -1 where it does not count.
__device__ int64_t target_of(const CrossEntropy& c, int64_t row) {
  const int64_t target = c.target[c.target_row.at(row)];
  if (target == c.ignore_index) return -1;
  const int64_t classes = c.part.whole > 0 ? c.part.whole : c.classes;
  if (target >= 0 && target < classes) return target;
  report(c.fault, FaultKind::kTarget, row, target, classes);
  return -1;
}

template <class T>
__device__ double weight_of(const CrossEntropy& c, int64_t index) {
  return c.weight == nullptr ? 1.0 : widen(static_cast<const T*>(c.weight)[index * c.weight_stride]);
}
// By all threads of the block.
template <class T>
__device__ double sum_of_weights(const CrossEntropy& c) {
  if (c.weight == nullptr) return static_cast<double>(c.classes);
  double sum = 0;
  for (int64_t i = threadIdx.x; i < c.classes; i += kThreads) sum += weight_of<T>(c, i);
  return team_sum<kThreads>(sum);
}

// log sum_c exp(x_c), by all threads of the block. Each keeps the largest value that it has seen and the sum under it.
template <class T>
__device__ Computed<T> lse_of(const RowOf<const T>& x) {
  using C = Computed<T>;
  const C lowest = -INFINITY;
  C top = lowest, sum = 0, values[kPack];
  for (int64_t i = threadIdx.x * kPack; i < x.columns; i += kThreads * kPack) {
    x.read(i, lowest, values);
    C most = top;
    for (int k = 0; k < kPack; ++k) most = values[k] > most ? values[k] : most;
    if (most > top) {
      sum = sum * std::exp(top - most);
      top = most;
    }
    // Nothing but -inf so far, or NaN, which stays.
    if (top > lowest)
      for (int k = 0; k < kPack; ++k) sum += std::exp(values[k] - top);
    else
      for (int k = 0; k < kPack; ++k) sum += values[k] == lowest ? C(0) : values[k];
  }
  const C most = team_max<kThreads>(top);
  sum = team_sum<kThreads>(top > lowest ? sum * std::exp(top - most) : sum);
  return std::isinf(most) ? most : most + std::log(sum);
}

template <class T>
__device__ RowOf<const T> logits_of(const CrossEntropy& c, int64_t row, bool packed) {
  return {static_cast<const T*>(c.logits) + c.row.at(row), c.of_class, c.classes, packed};
}

template <class T>
__global__ void __launch_bounds__(kThreads) cross_entropy_kernel(CrossEntropy c, bool packed) {
  using C = Computed<T>;
  const double even = c.smoothing / static_cast<double>(c.classes);
  const double all_weights = c.smoothing != 0 ? sum_of_weights<T>(c) : 0.0;
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * c.rows / gridDim.x,
                end = (static_cast<int64_t>(blockIdx.x) + 1) * c.rows / gridDim.x;
  double loss = 0;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t target = target_of(c, row);
    if (target < 0) {
      if (threadIdx.x == 0 && c.lse != nullptr) c.lse[row] = 0;
      continue;
    }
    const auto x = logits_of<T>(c, row, packed);
    const C lse = lse_of<T>(x);
    if (threadIdx.x == 0) {
      if (c.lse != nullptr) c.lse[row] = static_cast<float>(lse);
      const double own = widen(x.data[x.column.at(target)]);
      loss += (1 - c.smoothing) * weight_of<T>(c, target) * (static_cast<double>(lse) - own);
    }
    if (c.smoothing == 0) continue;
    C sum = 0;
    for (int64_t i = threadIdx.x; i < c.classes; i += kThreads)
      sum += static_cast<C>(weight_of<T>(c, i)) * widen(x.data[x.column.at(i)]);
    sum = team_sum<kThreads>(sum);
    loss += even * (static_cast<double>(lse) * all_weights - static_cast<double>(sum));
  }
  if (threadIdx.x == 0) c.parts[blockIdx.x] = loss;
}

__global__ void add_losses_kernel(CrossEntropy c, int num_parts) {
  double sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < num_parts; i += kWarp) sum += c.parts[i];
  sum = team_sum<kWarp>(sum);
  if (threadIdx.x != 0) return;
  write_scalar(c.scalar, c.scalar_type, c.accumulate ? read_scalar(c.scalar, c.scalar_type) + sum : sum);
}

// dx_c = total exp(x_c - lse) - even w_c, less the target's own part.
template <class T>
__global__ void __launch_bounds__(kThreads)
    cross_entropy_backward_kernel(CrossEntropy c, bool packed, bool gradient_packed, int64_t blocks_of_row) {
  using C = Computed<T>;
  const int64_t row = blockIdx.x / blocks_of_row, begin = blockIdx.x % blocks_of_row * kClassesOfBlock;
  const int64_t end = begin + kClassesOfBlock < c.classes ? begin + kClassesOfBlock : c.classes;
  const RowOf<T> dx = {static_cast<T*>(c.gradient) + c.gradient_row.at(row), c.gradient_class, c.classes,
                       gradient_packed};
  const int64_t target = target_of(c, row);
  C values[kPack] = {};
  if (target < 0) {
    for (int64_t i = begin + threadIdx.x * kPack; i < end; i += kThreads * kPack) dx.write(i, values);
    return;
  }
  const auto x = logits_of<T>(c, row, packed);
  const double g = read_scalar(c.scalar, c.scalar_type), even = c.smoothing / static_cast<double>(c.classes);
  const double own = (1 - c.smoothing) * weight_of<T>(c, target);
  const double all_weights = even != 0 ? sum_of_weights<T>(c) : 0.0;
  C lse;
  if constexpr (std::is_same_v<T, double>) lse = lse_of<T>(x);
  else lse = c.lse[row];
  const auto total = static_cast<C>(g * (own + even * all_weights)), each = static_cast<C>(g * even),
             taken = static_cast<C>(g * own);
  for (int64_t i = begin + threadIdx.x * kPack; i < end; i += kThreads * kPack) {
    x.read(i, lse, values);
    for (int k = 0; k < kPack; ++k) {
      values[k] = std::exp(values[k] - lse) * total;
      if (each != 0 && i + k < c.classes) values[k] = values[k] - static_cast<C>(weight_of<T>(c, i + k)) * each;
      if (i + k == target) values[k] = values[k] - taken;
    }
    dx.write(i, values);
  }
}

// A block a row.
template <class T>
__global__ void __launch_bounds__(kThreads) row_lse_kernel(CrossEntropy c, bool packed) {
  using C = Computed<T>;
  const int64_t row = blockIdx.x, target = target_of(c, row), place = c.part.place[0];
  auto x = logits_of<T>(c, row, packed);
  x.columns = c.part.count();
  const C lse = target < 0 ? C(0) : lse_of<T>(x);
  const int64_t own = target - c.part.first();
  C* const stats = static_cast<C*>(c.stats);
  for (int64_t p = threadIdx.x; p < c.places; p += kThreads) {
    const bool here = p == place && target >= 0;
    C* const of_place = stats + (row * c.places + p) * 2;
    of_place[0] = here ? lse : C(0);
    of_place[1] = here && own >= 0 && own < x.columns ? widen(x.data[x.column.at(own)]) : C(0);
  }
}

template <class C>
__global__ void __launch_bounds__(kThreads) merged_loss_kernel(CrossEntropy c) {
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * c.rows / gridDim.x,
                end = (static_cast<int64_t>(blockIdx.x) + 1) * c.rows / gridDim.x;
  const C* const all = static_cast<const C*>(c.stats);
  double loss = 0;
  for (int64_t row = begin + threadIdx.x; row < end; row += kThreads) {
    C merged = 0, own = 0;
    if (target_of(c, row) >= 0) {
      const C* const stats = all + row * c.places * 2;
      C top = -INFINITY, exps = 0;
      for (int64_t p = 0; p < c.places; ++p) {
        const C lse = stats[p * 2];
        top = lse > top || lse != lse ? lse : top;
      }
      for (int64_t p = 0; p < c.places; ++p) {
        exps += std::isinf(top) ? C(0) : std::exp(stats[p * 2] - top);
        own += stats[p * 2 + 1];
      }
      merged = std::isinf(top) ? top : top + std::log(exps);
      loss += static_cast<double>(merged) - static_cast<double>(own);
    }
    if (c.part_lse != nullptr) static_cast<C*>(c.part_lse)[row] = merged;
  }
  loss = team_sum<kThreads>(loss);
  if (threadIdx.x == 0) c.parts[blockIdx.x] = loss;
}

// A place's own classes by the log-sum-exp of all; zeros past them.
template <class T>
__global__ void __launch_bounds__(kThreads)
    own_gradient_kernel(CrossEntropy c, bool packed, bool gradient_packed, int64_t blocks_of_row) {
  using C = Computed<T>;
  const int64_t row = blockIdx.x / blocks_of_row, begin = blockIdx.x % blocks_of_row * kClassesOfBlock;
  const int64_t end = begin + kClassesOfBlock < c.classes ? begin + kClassesOfBlock : c.classes;
  const RowOf<T> dx = {static_cast<T*>(c.gradient) + c.gradient_row.at(row), c.gradient_class, c.classes,
                       gradient_packed};
  const int64_t target = target_of(c, row), own = target - c.part.first(), count = target < 0 ? 0 : c.part.count();
  const auto x = logits_of<T>(c, row, packed);
  const auto g = static_cast<C>(read_scalar(c.scalar, c.scalar_type));
  const C lse = static_cast<const C*>(c.part_lse)[row];
  C values[kPack];
  for (int64_t i = begin + threadIdx.x * kPack; i < end; i += kThreads * kPack) {
    x.read(i, lse, values);
    for (int k = 0; k < kPack; ++k) {
      values[k] = i + k < count ? std::exp(values[k] - lse) * g : C(0);
      if (i + k < count && i + k == own) values[k] = values[k] - g;
    }
    dx.write(i, values);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) cross_entropy_count_kernel(CrossEntropy c) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < c.rows; i += kThreads) {
    const int64_t target = c.target[c.target_row.at(i)];
    if (target == c.ignore_index) continue;
    if (target >= 0 && target < c.classes) sum += weight_of<T>(c, target);
    else report(c.fault, FaultKind::kNoClass, i, target);
  }
  sum = team_sum<kThreads>(sum);
  if (threadIdx.x != 0) return;
  write_scalar(c.scalar, c.scalar_type, c.accumulate ? read_scalar(c.scalar, c.scalar_type) + sum : sum);
}

template <class T>
__global__ void __launch_bounds__(kThreads) nll_kernel(CrossEntropy c) {
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * c.rows / gridDim.x,
                end = (static_cast<int64_t>(blockIdx.x) + 1) * c.rows / gridDim.x;
  double loss = 0;
  for (int64_t row = begin + threadIdx.x; row < end; row += kThreads) {
    const int64_t target = target_of(c, row);
    if (target < 0) continue;
    const double value = widen(static_cast<const T*>(c.logits)[c.row.at(row) + c.of_class.at(target)]);
    loss -= weight_of<T>(c, target) * value;
  }
  loss = team_sum<kThreads>(loss);
  if (threadIdx.x == 0) c.parts[blockIdx.x] = loss;
}

template <class T>
__global__ void __launch_bounds__(kThreads) nll_backward_kernel(CrossEntropy c) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (row >= c.rows) return;
  const int64_t target = target_of(c, row);
  if (target < 0) return;
  static_cast<T*>(c.gradient)[c.gradient_row.at(row) + c.gradient_class.at(target)] =
      rounded<T>(static_cast<Computed<T>>(-read_scalar(c.scalar, c.scalar_type) * weight_of<T>(c, target)));
}

}  // namespace

void launch_cross_entropy_sum(const CrossEntropy& c, cudaStream_t stream) {
  const auto parts = static_cast<int>(std::min(kMostLossParts, c.rows));
  by_floating_type(c.type, [&](auto type) {
    using T = typename decltype(type)::type;
    const bool packed = rows_hold_packs<T>(c.logits, c.row, c.of_class, c.classes);
    if (parts > 0) PIPER_LAUNCH((cross_entropy_kernel<T>), parts, kThreads, 0, stream, c, packed);
  });
  PIPER_LAUNCH(add_losses_kernel, 1, kWarp, 0, stream, c, parts);
}

void launch_cross_entropy_backward(const CrossEntropy& c, cudaStream_t stream) {
  if (c.rows == 0 || c.classes == 0) return;
  // f64 takes a row's statistic in the block that writes the row, which may be the logits themselves.
  const int64_t blocks_of_row = ceil_div(c.classes, kClassesOfBlock);
  PIPER_CHECK(c.type != DType::kF64 || blocks_of_row == 1 || c.gradient != c.logits, "f64 in place of long rows");
  by_floating_type(c.type, [&](auto type) {
    using T = typename decltype(type)::type;
    PIPER_LAUNCH((cross_entropy_backward_kernel<T>), grid_of(c.rows * blocks_of_row), kThreads, 0, stream, c,
                 rows_hold_packs<T>(c.logits, c.row, c.of_class, c.classes),
                 rows_hold_packs<T>(c.gradient, c.gradient_row, c.gradient_class, c.classes), blocks_of_row);
  });
}

void launch_row_lse(const CrossEntropy& c, cudaStream_t stream) {
  if (c.rows == 0) return;
  by_floating_type(c.type, [&](auto type) {
    using T = typename decltype(type)::type;
    // Rows of a part may end inside of a pack.
    const bool packed =
        c.part.whole % (c.classes * c.places) == 0 && rows_hold_packs<T>(c.logits, c.row, c.of_class, c.classes);
    PIPER_LAUNCH((row_lse_kernel<T>), grid_of(c.rows), kThreads, 0, stream, c, packed);
  });
}

void launch_merged_loss(const CrossEntropy& c, cudaStream_t stream) {
  const auto parts = static_cast<int>(std::min(kMostLossParts, ceil_div(c.rows, kThreads)));
  if (parts > 0 && c.type == DType::kF64) PIPER_LAUNCH((merged_loss_kernel<double>), parts, kThreads, 0, stream, c);
  else if (parts > 0) PIPER_LAUNCH((merged_loss_kernel<float>), parts, kThreads, 0, stream, c);
  PIPER_LAUNCH(add_losses_kernel, 1, kWarp, 0, stream, c, parts);
}

void launch_own_gradient(const CrossEntropy& c, cudaStream_t stream) {
  if (c.rows == 0 || c.classes == 0) return;
  const int64_t blocks_of_row = ceil_div(c.classes, kClassesOfBlock);
  by_floating_type(c.type, [&](auto type) {
    using T = typename decltype(type)::type;
    PIPER_LAUNCH((own_gradient_kernel<T>), grid_of(c.rows * blocks_of_row), kThreads, 0, stream, c,
                 rows_hold_packs<T>(c.logits, c.row, c.of_class, c.classes),
                 rows_hold_packs<T>(c.gradient, c.gradient_row, c.gradient_class, c.classes), blocks_of_row);
  });
}

void launch_cross_entropy_count(const CrossEntropy& c, cudaStream_t stream) {
  by_floating_type(c.type, [&](auto type) {
    using T = typename decltype(type)::type;
    PIPER_LAUNCH((cross_entropy_count_kernel<T>), 1, kThreads, 0, stream, c);
  });
}

void launch_nll_sum(const CrossEntropy& c, cudaStream_t stream) {
  const auto parts = static_cast<int>(std::min(kMostLossParts, ceil_div(c.rows, kThreads)));
  by_floating_type(c.type, [&](auto type) {
    using T = typename decltype(type)::type;
    if (parts > 0) PIPER_LAUNCH((nll_kernel<T>), parts, kThreads, 0, stream, c);
  });
  PIPER_LAUNCH(add_losses_kernel, 1, kWarp, 0, stream, c, parts);
}

void launch_nll_backward(const CrossEntropy& c, cudaStream_t stream) {
  if (c.rows == 0) return;
  by_floating_type(c.type, [&](auto type) {
    using T = typename decltype(type)::type;
    PIPER_LAUNCH((nll_backward_kernel<T>), grid_of(ceil_div(c.rows, kThreads)), kThreads, 0, stream, c);
  });
}

}  // namespace piper::kernels::cuda
