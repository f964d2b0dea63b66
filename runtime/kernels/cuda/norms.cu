// Layer and root-mean-square normalisation: a warp or a block a row, statistics and results in f32 (f64 for f64).
#include "runtime/kernels/cuda/norms.h"

#include <algorithm>
#include <cmath>

#include "runtime/kernels/cuda/device_code.h"
#include "runtime/kernels/cuda/row_elements.h"
#include "runtime/kernels/cuda/team_sum.h"

namespace piper::kernels::cuda {
namespace {

// Which operands are read in packs.
struct Packed {
  bool x, g, y, weight, bias;
};

template <class T>
__device__ RowOf<T> row_of(const Matrix& matrix, int64_t row, int64_t columns, bool packed) {
  return {static_cast<T*>(matrix.data) + matrix.row.at(row), matrix.column, columns, packed};
}
template <class T>
__device__ RowOf<T> weights_of(const Matrix& matrix, int64_t columns, bool packed) {
  return {static_cast<T*>(matrix.data), matrix.column, columns, packed};
}

template <class C>
struct Statistics {
  C mean, rstd;
};

// For a row, by all threads of its team.
template <int kTeam, bool kCentred, class T>
__device__ Statistics<Computed<T>> statistics_of(const RowOf<T>& x, int64_t columns, double eps) {
  using C = Computed<T>;
  C values[kPack], mean = 0;
  if constexpr (kCentred) {
    C sum = 0;
    for (int64_t c = threadIdx.x * kPack; c < columns; c += kTeam * kPack) {
      x.read(c, C(0), values);
      for (int i = 0; i < kPack; ++i) sum += values[i];
    }
    mean = team_sum<kTeam>(sum) / static_cast<C>(columns);
  }
  C squares = 0;
  for (int64_t c = threadIdx.x * kPack; c < columns; c += kTeam * kPack) {
    x.read(c, mean, values);
    for (int i = 0; i < kPack; ++i) squares += (values[i] - mean) * (values[i] - mean);
  }
  squares = team_sum<kTeam>(squares);
  return {mean, C(1) / std::sqrt(squares / static_cast<C>(columns) + static_cast<C>(eps))};
}

template <class T, bool kCentred, int kTeam>
__global__ void __launch_bounds__(kBlockTeam) norm_kernel(Norm n, Packed packed) {
  using C = Computed<T>;
  const int64_t row = row_of_team();
  if (row >= n.rows) return;
  const auto x = row_of<T>(n.x, row, n.columns, packed.x);
  const auto y = row_of<T>(n.y, row, n.columns, packed.y);
  const auto [mean, rstd] = statistics_of<kTeam, kCentred>(x, n.columns, n.eps);
  if (threadIdx.x == 0 && n.mean != nullptr) n.mean[row] = static_cast<float>(mean);
  if (threadIdx.x == 0 && n.rstd != nullptr) n.rstd[row] = static_cast<float>(rstd);
  C values[kPack], weight[kPack], bias[kPack];
  for (int64_t c = threadIdx.x * kPack; c < n.columns; c += kTeam * kPack) {
    x.read(c, C(0), values);
    if (n.weight.data != nullptr) weights_of<T>(n.weight, n.columns, packed.weight).read(c, C(0), weight);
    if (n.bias.data != nullptr) weights_of<T>(n.bias, n.columns, packed.bias).read(c, C(0), bias);
    for (int i = 0; i < kPack; ++i) {
      if constexpr (kCentred) values[i] = values[i] - mean;
      values[i] = values[i] * rstd;
      if (n.weight.data != nullptr) values[i] = values[i] * weight[i];
      if (n.bias.data != nullptr) values[i] = values[i] + bias[i];
    }
    y.write(c, values);
  }
}

template <int kTeam, bool kCentred, class T>
__device__ Statistics<Computed<T>> saved_statistics(const Norm& n, int64_t row, const RowOf<T>& x) {
  if constexpr (std::is_same_v<T, double>) return statistics_of<kTeam, kCentred>(x, n.columns, n.eps);
  else return {kCentred ? n.mean[row] : 0.0f, n.rstd[row]};
}

// rms: dx = rstd (g w - x rstd^2 mean(g w x)).
// layer, with z the normalised x: dx = rstd (g w - mean(g w) - z mean(g w z)).
template <class T, bool kCentred, int kTeam>
__global__ void __launch_bounds__(kBlockTeam) norm_backward_input_kernel(Norm n, Packed packed) {
  using C = Computed<T>;
  const int64_t row = row_of_team();
  if (row >= n.rows) return;
  const auto x = row_of<T>(n.x, row, n.columns, packed.x), g = row_of<T>(n.g, row, n.columns, packed.g),
             dx = row_of<T>(n.y, row, n.columns, packed.y);
  const auto [mean, rstd] = saved_statistics<kTeam, kCentred>(n, row, x);
  C values[kPack], gradient[kPack], weight[kPack], sum = 0, dot = 0;
  // g w, and x, centred and scaled where it is a layer's.
  const auto read = [&, mean = mean, rstd = rstd](int64_t c) {
    x.read(c, mean, values);
    g.read(c, C(0), gradient);
    if (n.weight.data != nullptr) weights_of<T>(n.weight, n.columns, packed.weight).read(c, C(0), weight);
    for (int i = 0; i < kPack; ++i) {
      if (n.weight.data != nullptr) gradient[i] = gradient[i] * weight[i];
      if constexpr (kCentred) values[i] = (values[i] - mean) * rstd;
    }
  };
  for (int64_t c = threadIdx.x * kPack; c < n.columns; c += kTeam * kPack) {
    read(c);
    for (int i = 0; i < kPack; ++i) {
      if constexpr (kCentred) sum += gradient[i];
      dot += gradient[i] * values[i];
    }
  }
  const auto count = static_cast<C>(n.columns);
  if constexpr (kCentred) sum = team_sum<kTeam>(sum) / count;
  dot = team_sum<kTeam>(dot) / count;
  if constexpr (!kCentred) dot = rstd * rstd * dot;
  for (int64_t c = threadIdx.x * kPack; c < n.columns; c += kTeam * kPack) {
    read(c);
    for (int i = 0; i < kPack; ++i) {
      if constexpr (kCentred) values[i] = rstd * (gradient[i] - sum - values[i] * dot);
      else values[i] = rstd * (gradient[i] - values[i] * dot);
    }
    dx.write(c, values);
  }
}

// Columns of a block, and rows that are added up side by side.
constexpr int kColumns = 32, kRowLanes = 16;

// f64 computes the statistics of each row again; it serves tests of gradients, whose rows are short.
template <class T, bool kCentred>
__device__ Statistics<Computed<T>> statistics_for_weights(const Norm& n, int64_t row) {
  if constexpr (std::is_same_v<T, double>) {
    const double* x = static_cast<const double*>(n.x.data) + n.x.row.at(row);
    double mean = 0, squares = 0;
    if constexpr (kCentred) {
      for (int64_t c = 0; c < n.columns; ++c) mean += x[n.x.column.at(c)];
      mean /= static_cast<double>(n.columns);
    }
    for (int64_t c = 0; c < n.columns; ++c) {
      const double value = x[n.x.column.at(c)] - mean;
      squares += value * value;
    }
    return {mean, 1 / std::sqrt(squares / static_cast<double>(n.columns) + n.eps)};
  } else {
    return {kCentred ? n.mean[row] : 0.0f, n.rstd[row]};
  }
}

template <class T>
__device__ void store_weight(const Matrix& out, int64_t column, Computed<T> value, bool accumulate) {
  T& cell = static_cast<T*>(out.data)[out.column.at(column)];
  cell = rounded<T>(accumulate ? widen(cell) + value : value);
}

// One block: kColumns columns of the rows of one part. Lanes take rows in turn and are added in their order.
template <class T, bool kCentred>
__global__ void __launch_bounds__(kColumns* kRowLanes) norm_backward_weight_kernel(NormWeights w, int64_t num_parts) {
  using C = Computed<T>;
  const Norm& n = w.norm;
  __shared__ C dw_lanes[kRowLanes][kColumns], db_lanes[kRowLanes][kColumns];
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kColumns + threadIdx.x, part = blockIdx.y;
  const int64_t begin = part * n.rows / num_parts, end = (part + 1) * n.rows / num_parts;
  C dw = 0, db = 0;
  if (column < n.columns)
    for (int64_t row = begin + threadIdx.y; row < end; row += kRowLanes) {
      const auto [mean, rstd] = statistics_for_weights<T, kCentred>(n, row);
      const C g = widen(static_cast<const T*>(n.g.data)[n.g.row.at(row) + n.g.column.at(column)]);
      C x = widen(static_cast<const T*>(n.x.data)[n.x.row.at(row) + n.x.column.at(column)]);
      if constexpr (kCentred) x = x - mean;
      dw += g * (x * rstd);
      db += g;
    }
  dw_lanes[threadIdx.y][threadIdx.x] = dw;
  db_lanes[threadIdx.y][threadIdx.x] = db;
  __syncthreads();
  if (threadIdx.y != 0 || column >= n.columns) return;
  dw = db = 0;
  for (int lane = 0; lane < kRowLanes; ++lane) {
    dw += dw_lanes[lane][threadIdx.x];
    db += db_lanes[lane][threadIdx.x];
  }
  if (num_parts == 1) {
    if (w.dw.data != nullptr) store_weight<T>(w.dw, column, dw, w.accumulate);
    if (w.db.data != nullptr) store_weight<T>(w.db, column, db, w.accumulate);
    return;
  }
  C* parts = static_cast<C*>(w.parts);
  parts[part * n.columns + column] = dw;
  parts[(num_parts + part) * n.columns + column] = db;
}

template <class T>
__global__ void __launch_bounds__(kBlockTeam) add_parts_kernel(NormWeights w, int64_t num_parts) {
  using C = Computed<T>;
  const int64_t columns = w.norm.columns, column = static_cast<int64_t>(blockIdx.x) * kBlockTeam + threadIdx.x;
  if (column >= columns) return;
  const C* parts = static_cast<const C*>(w.parts);
  C dw = 0, db = 0;
  for (int64_t part = 0; part < num_parts; ++part) {
    dw += parts[part * columns + column];
    db += parts[(num_parts + part) * columns + column];
  }
  if (w.dw.data != nullptr) store_weight<T>(w.dw, column, dw, w.accumulate);
  if (w.db.data != nullptr) store_weight<T>(w.db, column, db, w.accumulate);
}

template <class T>
Packed packed_of(const Norm& n) {
  const auto of = [&](const Matrix& m) { return rows_hold_packs<T>(m.data, m.row, m.column, n.columns); };
  return {of(n.x), of(n.g), of(n.y), of(n.weight), of(n.bias)};
}

// Calls body(type tag, centred as Constant<0 or 1>).
template <class F>
void by_form(const Norm& n, F&& body) {
  by_floating_type(n.type, [&](auto type) {
    if (n.centred) body(type, Constant<1>());
    else body(type, Constant<0>());
  });
}

}  // namespace

void launch_norm(const Norm& norm, cudaStream_t stream) {
  by_form(norm, [&](auto type, auto centred) {
    using T = typename decltype(type)::type;
    by_team(norm.rows, norm.columns, [&](auto team, unsigned grid, dim3 block) {
      PIPER_LAUNCH((norm_kernel < T, decltype(centred)::value != 0, decltype(team)::value >), grid, block, 0, stream,
                   norm, packed_of<T>(norm));
    });
  });
}

void launch_norm_backward_input(const Norm& norm, cudaStream_t stream) {
  by_form(norm, [&](auto type, auto centred) {
    using T = typename decltype(type)::type;
    by_team(norm.rows, norm.columns, [&](auto team, unsigned grid, dim3 block) {
      PIPER_LAUNCH((norm_backward_input_kernel < T, decltype(centred)::value != 0, decltype(team)::value >), grid,
                   block, 0, stream, norm, packed_of<T>(norm));
    });
  });
}

int64_t norm_weight_parts(const Norm& norm) {
  const int64_t row_bytes = 2 * norm.columns * (norm.type == DType::kF64 ? 8 : 4);
  return std::max<int64_t>(1, std::min(norm.rows / 256, kMostPartBytes / std::max<int64_t>(row_bytes, 1)));
}

void launch_norm_backward_weight(const NormWeights& weights, cudaStream_t stream) {
  const Norm& norm = weights.norm;
  if (norm.columns == 0) return;
  const int64_t num_parts = norm_weight_parts(norm);
  by_form(norm, [&](auto type, auto centred) {
    using T = typename decltype(type)::type;
    PIPER_LAUNCH((norm_backward_weight_kernel < T, decltype(centred)::value != 0 >),
                 dim3(grid_of(ceil_div(norm.columns, kColumns)), grid_of(num_parts)), dim3(kColumns, kRowLanes), 0,
                 stream, weights, num_parts);
    if (num_parts > 1)
      PIPER_LAUNCH((add_parts_kernel<T>), grid_of(ceil_div(norm.columns, kBlockTeam)), kBlockTeam, 0, stream, weights,
                   num_parts);
  });
}

}  // namespace piper::kernels::cuda
