#include "runtime/kernels/cuda/grouped_products.h"

#include <mma.h>

#include "runtime/kernels/cuda/device_code.h"
#include "runtime/kernels/cuda/group_rows.h"

namespace piper::kernels::cuda {
namespace {

// A block makes a tile of kTile x kTile sums.
constexpr int kTile = 64, kThreads = 256;

// Part of a matrix: `rows` x `columns` elements from `data` on, zero around them.
template <class T>
struct Part {
  const T* data;
  int64_t row, column, rows, columns;
  __device__ T at(int64_t r, int64_t c) const { return r < rows && c < columns ? data[r * row + c * column] : T{}; }
};
// kRows x kColumns elements of a part, by all threads of the block: neighbours read neighbours. put(row, column,
// element)
template <int kRows, int kColumns, class T, class F>
__device__ void load_part(const Part<T>& part, int64_t first_row, int64_t first_column, F&& put) {
  const bool by_rows = part.column != 1;
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kColumns; i += kThreads) {
    const int r = by_rows ? i % kRows : i / kColumns, c = by_rows ? i / kRows : i % kColumns;
    put(r, c, part.at(first_row + r, first_column + c));
  }
}

__device__ inline float fused(float a, float b, float c) { return fmaf(a, b, c); }
__device__ inline double fused(double a, double b, double c) { return fma(a, b, c); }

// Sums of products of two parts, by all threads of a block. A thread has kEach x kEach of them: rows down + kStep i and
// columns across + kStep j.
template <class T>
class TileSums {
  using C = Computed<T>;
  static constexpr int kDepth = 16, kEach = 4, kStep = kTile / kEach;

 public:
  struct Shared {
    C left[kDepth][kTile + 1], right[kDepth][kTile + 1];
  };
  __device__ void add(Shared& shared, const Part<T>& a, const Part<T>& b) {
    for (int64_t depth = 0; depth < a.columns; depth += kDepth) {
      load_part<kTile, kDepth>(a, 0, depth, [&](int r, int c, T x) { shared.left[c][r] = widen(x); });
      load_part<kDepth, kTile>(b, depth, 0, [&](int r, int c, T x) { shared.right[r][c] = widen(x); });
      __syncthreads();
      for (int d = 0; d < kDepth; ++d) {
        C l[kEach], r[kEach];
        for (int i = 0; i < kEach; ++i) l[i] = shared.left[d][down() + kStep * i];
        for (int j = 0; j < kEach; ++j) r[j] = shared.right[d][across() + kStep * j];
        for (int i = 0; i < kEach; ++i)
          for (int j = 0; j < kEach; ++j) sums_[i][j] = fused(l[i], r[j], sums_[i][j]);
      }
      __syncthreads();
    }
  }
  // put(row, column, sum)
  template <class F>
  __device__ void give(Shared&, F&& put) const {
    for (int i = 0; i < kEach; ++i)
      for (int j = 0; j < kEach; ++j) put(down() + kStep * i, across() + kStep * j, sums_[i][j]);
  }

 private:
  __device__ static int down() { return static_cast<int>(threadIdx.x) / kStep; }
  __device__ static int across() { return static_cast<int>(threadIdx.x) % kStep; }
  C sums_[kEach][kEach] = {};
};

// Halves: tensor cores. A warp has 16 rows and 32 columns of the sums, in f32.
namespace wmma = nvcuda::wmma;
template <class T>
class HalfTileSums {
  static constexpr int kDepth = 32, kSide = 16, kAcross = 2;
  static constexpr int kLeft = kDepth + 8, kRight = kTile + 8, kSums = kTile + 4;  // elements between rows

 public:
  struct Shared {
    alignas(32) T left[kTile][kLeft];
    alignas(32) T right[kDepth][kRight];
    alignas(32) float sums[kTile][kSums];
  };
  __device__ HalfTileSums() {
    for (auto& sums : sums_) wmma::fill_fragment(sums, 0.0f);
  }
  __device__ void add(Shared& shared, const Part<T>& a, const Part<T>& b) {
    for (int64_t depth = 0; depth < a.columns; depth += kDepth) {
      load_part<kTile, kDepth>(a, 0, depth, [&](int r, int c, T x) { shared.left[r][c] = x; });
      load_part<kDepth, kTile>(b, depth, 0, [&](int r, int c, T x) { shared.right[r][c] = x; });
      __syncthreads();
      for (int d = 0; d < kDepth; d += kSide) {
        wmma::fragment<wmma::matrix_a, kSide, kSide, kSide, T, wmma::row_major> left;
        wmma::load_matrix_sync(left, &shared.left[down()][d], kLeft);
        for (int j = 0; j < kAcross; ++j) {
          wmma::fragment<wmma::matrix_b, kSide, kSide, kSide, T, wmma::row_major> right;
          wmma::load_matrix_sync(right, &shared.right[d][across() + j * kSide], kRight);
          wmma::mma_sync(sums_[j], left, right, sums_[j]);
        }
      }
      __syncthreads();
    }
  }
  template <class F>
  __device__ void give(Shared& shared, F&& put) const {
    for (int j = 0; j < kAcross; ++j)
      wmma::store_matrix_sync(&shared.sums[down()][across() + j * kSide], sums_[j], kSums, wmma::mem_row_major);
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < kTile * kTile; i += kThreads)
      put(i / kTile, i % kTile, shared.sums[i / kTile][i % kTile]);
  }

 private:
  // For the warp's sums: four warps down, two across.
  __device__ static int down() { return static_cast<int>(threadIdx.x) / kWarp % 4 * kSide; }
  __device__ static int across() { return static_cast<int>(threadIdx.x) / kWarp / 4 * kSide * kAcross; }
  wmma::fragment<wmma::accumulator, kSide, kSide, kSide, float> sums_[kAcross];
};
template <>
class TileSums<__half> : public HalfTileSums<__half> {};
template <>
class TileSums<__nv_bfloat16> : public HalfTileSums<__nv_bfloat16> {};

// The sums to a part of `rows` x `columns` elements.
template <class T>
__device__ void store_sums(const TileSums<T>& sums, typename TileSums<T>::Shared& shared, T* data,
                           const MatrixPlace& place, int64_t rows, int64_t columns, bool accumulate) {
  sums.give(shared, [&](int r, int c, Computed<T> sum) {
    if (r >= rows || c >= columns) return;
    T& cell = data[r * place.row + c * place.column];
    cell = rounded<T>(accumulate ? widen(cell) + sum : sum);
  });
}

__device__ inline int64_t fewer(int64_t a, int64_t b) { return a < b ? a : b; }

// Tiles of rows that a segment may have at most: full ones, and one that is not of each expert and of the padding.
int64_t tiles_of_segment(const GroupCounts& g) { return g.rows / g.segments / kTile + g.experts + 1; }

template <class T>
__global__ void __launch_bounds__(kThreads) grouped_matmul_kernel(GroupedMatmul p, int64_t tiles) {
  __shared__ typename TileSums<T>::Shared shared;
  const int64_t segment = blockIdx.x / tiles, experts = p.counts.experts;
  // The tile's expert, `experts` for padding, and its rows.
  int64_t skipped = blockIdx.x % tiles, left = p.counts.rows / p.counts.segments, first = segment * left, expert = 0,
          rows = 0;
  for (; expert <= experts; ++expert) {
    rows = expert < experts ? rows_of_expert(p.counts, segment, expert, left) : left;
    const int64_t own = (rows + kTile - 1) / kTile;
    if (skipped < own) break;
    skipped -= own;
    first += rows;
    left -= rows;
  }
  if (expert > experts) return;
  first += skipped * kTile;
  rows = fewer(rows - skipped * kTile, kTile);
  const int64_t column = static_cast<int64_t>(blockIdx.y) * kTile, columns = fewer(p.columns - column, kTile);
  T* y = static_cast<T*>(p.y.data) + first * p.y.row + column * p.y.column;
  TileSums<T> sums;
  if (expert == experts) {
    if (!p.accumulate) store_sums(sums, shared, y, p.y, rows, columns, false);
    return;
  }
  const Part<T> a = {static_cast<const T*>(p.x.data) + first * p.x.row, p.x.row, p.x.column, rows, p.inner};
  const Part<T> b = {static_cast<const T*>(p.w.data) + expert * p.w_expert + column * p.w.column, p.w.row, p.w.column,
                     p.inner, columns};
  sums.add(shared, a, b);
  store_sums(sums, shared, y, p.y, rows, columns, p.accumulate);
}

template <class T>
__global__ void __launch_bounds__(kThreads) grouped_matmul_weight_kernel(GroupedMatmulWeight p) {
  __shared__ typename TileSums<T>::Shared shared;
  const int64_t expert = blockIdx.z, row = static_cast<int64_t>(blockIdx.y) * kTile,
                column = static_cast<int64_t>(blockIdx.x) * kTile;
  const int64_t rows = fewer(p.rows_of_w - row, kTile), columns = fewer(p.columns - column, kTile);
  TileSums<T> sums;
  for (int64_t segment = 0; segment < p.counts.segments; ++segment) {
    const RowRange range = range_of_expert(p.counts, segment, expert);
    const Part<T> a = {static_cast<const T*>(p.a.data) + range.first * p.a.row + row * p.a.column, p.a.column, p.a.row,
                       rows, range.count};
    const Part<T> b = {static_cast<const T*>(p.b.data) + range.first * p.b.row + column * p.b.column, p.b.row,
                       p.b.column, range.count, columns};
    sums.add(shared, a, b);
  }
  T* w = static_cast<T*>(p.w.data) + expert * p.w_expert + row * p.w.row + column * p.w.column;
  store_sums(sums, shared, w, p.w, rows, columns, p.accumulate);
}

}  // namespace

void launch_grouped_matmul(const GroupedMatmul& product, cudaStream_t stream) {
  if (product.counts.rows == 0 || product.columns == 0) return;
  const int64_t tiles = tiles_of_segment(product.counts);
  by_floating_type(product.type, [&](auto type) {
    PIPER_LAUNCH((grouped_matmul_kernel<typename decltype(type)::type>),
                 dim3(grid_of(tiles * product.counts.segments), grid_of(ceil_div(product.columns, kTile))), kThreads, 0,
                 stream, product, tiles);
  });
}

void launch_grouped_matmul_weight(const GroupedMatmulWeight& product, cudaStream_t stream) {
  if (product.rows_of_w == 0 || product.columns == 0 || product.counts.experts == 0) return;
  by_floating_type(product.type, [&](auto type) {
    PIPER_LAUNCH((grouped_matmul_weight_kernel<typename decltype(type)::type>),
                 dim3(grid_of(ceil_div(product.columns, kTile)), grid_of(ceil_div(product.rows_of_w, kTile)),
                      grid_of(product.counts.experts)),
                 kThreads, 0, stream, product);
  });
}

}  // namespace piper::kernels::cuda
