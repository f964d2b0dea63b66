#include "runtime/kernels/cuda/grouped_products.h"

#include "runtime/kernels/cuda/device_code.h"
#include "runtime/kernels/cuda/group_rows.h"

namespace piper::kernels::cuda {
namespace {

// A block makes a tile of kTile x kTile sums, a thread kEach x kEach of them, in steps of kDepth on the inner axis.
constexpr int kTile = 64, kDepth = 16, kEach = 4, kThreads = (kTile / kEach) * (kTile / kEach);

__device__ inline float fused(float a, float b, float c) { return fmaf(a, b, c); }
__device__ inline double fused(double a, double b, double c) { return fma(a, b, c); }

// Part of a matrix: `rows` x `columns` elements from `data` on.
template <class T>
struct Part {
  const T* data;
  int64_t row, column, rows, columns;
  __device__ Computed<T> at(int64_t r, int64_t c) const {
    return r < rows && c < columns ? widen(data[r * row + c * column]) : Computed<T>(0);
  }
};

template <class T>
struct Tile {
  using C = Computed<T>;
  C left[kDepth][kTile + 1], right[kDepth][kTile + 1];
};

// sums += a b, by all threads of the block: this thread's are rows down + 16 i and columns across + 16 j.
template <class T>
__device__ void add_product(Tile<T>& tile, const Part<T>& a, const Part<T>& b, int down, int across,
                            Computed<T> (&sums)[kEach][kEach]) {
  using C = Computed<T>;
  constexpr int kStep = kTile / kEach;
  const bool a_by_rows = a.column != 1, b_by_rows = b.column != 1;  // so that neighbouring threads read neighbours
  for (int64_t depth = 0; depth < a.columns; depth += kDepth) {
    for (int i = static_cast<int>(threadIdx.x); i < kTile * kDepth; i += kThreads) {
      const int ar = a_by_rows ? i % kTile : i / kDepth, ac = a_by_rows ? i / kTile : i % kDepth;
      tile.left[ac][ar] = a.at(ar, depth + ac);
      const int br = b_by_rows ? i % kDepth : i / kTile, bc = b_by_rows ? i / kDepth : i % kTile;
      tile.right[br][bc] = b.at(depth + br, bc);
    }
    __syncthreads();
    for (int d = 0; d < kDepth; ++d) {
      C l[kEach], r[kEach];
      for (int i = 0; i < kEach; ++i) l[i] = tile.left[d][down + kStep * i];
      for (int j = 0; j < kEach; ++j) r[j] = tile.right[d][across + kStep * j];
      for (int i = 0; i < kEach; ++i)
        for (int j = 0; j < kEach; ++j) sums[i][j] = fused(l[i], r[j], sums[i][j]);
    }
    __syncthreads();
  }
}

// This thread's sums to a part of `rows` x `columns` elements.
template <class T>
__device__ void store_sums(T* data, int64_t row, int64_t column, int64_t rows, int64_t columns, int down, int across,
                           const Computed<T> (&sums)[kEach][kEach], bool accumulate) {
  constexpr int kStep = kTile / kEach;
  for (int i = 0; i < kEach; ++i)
    for (int j = 0; j < kEach; ++j) {
      const int64_t r = down + kStep * i, c = across + kStep * j;
      if (r >= rows || c >= columns) continue;
      T& cell = data[r * row + c * column];
      cell = rounded<T>(accumulate ? widen(cell) + sums[i][j] : sums[i][j]);
    }
}

__device__ inline int64_t fewer(int64_t a, int64_t b) { return a < b ? a : b; }

// Tiles of rows that a segment may have at most: full ones, and one that is not of each expert and of the padding.
int64_t tiles_of_segment(const GroupCounts& g) { return g.rows / g.segments / kTile + g.experts + 1; }

template <class T>
__global__ void __launch_bounds__(kThreads) grouped_matmul_kernel(GroupedMatmul p, int64_t tiles) {
  __shared__ Tile<T> tile;
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
  const int down = static_cast<int>(threadIdx.x) / (kTile / kEach),
            across = static_cast<int>(threadIdx.x) % (kTile / kEach);
  T* y = static_cast<T*>(p.y.data) + first * p.y.row + column * p.y.column;
  Computed<T> sums[kEach][kEach] = {};
  if (expert == experts) {
    if (!p.accumulate) store_sums(y, p.y.row, p.y.column, rows, columns, down, across, sums, false);
    return;
  }
  const Part<T> a = {static_cast<const T*>(p.x.data) + first * p.x.row, p.x.row, p.x.column, rows, p.inner};
  const Part<T> b = {static_cast<const T*>(p.w.data) + expert * p.w_expert + column * p.w.column, p.w.row, p.w.column,
                     p.inner, columns};
  add_product(tile, a, b, down, across, sums);
  store_sums(y, p.y.row, p.y.column, rows, columns, down, across, sums, p.accumulate);
}

template <class T>
__global__ void __launch_bounds__(kThreads) grouped_matmul_weight_kernel(GroupedMatmulWeight p) {
  __shared__ Tile<T> tile;
  const int64_t expert = blockIdx.z, row = static_cast<int64_t>(blockIdx.y) * kTile,
                column = static_cast<int64_t>(blockIdx.x) * kTile;
  const int64_t rows = fewer(p.rows_of_w - row, kTile), columns = fewer(p.columns - column, kTile);
  const int down = static_cast<int>(threadIdx.x) / (kTile / kEach),
            across = static_cast<int>(threadIdx.x) % (kTile / kEach);
  Computed<T> sums[kEach][kEach] = {};
  for (int64_t segment = 0; segment < p.counts.segments; ++segment) {
    const RowRange range = range_of_expert(p.counts, segment, expert);
    const Part<T> a = {static_cast<const T*>(p.a.data) + range.first * p.a.row + row * p.a.column, p.a.column, p.a.row,
                       rows, range.count};
    const Part<T> b = {static_cast<const T*>(p.b.data) + range.first * p.b.row + column * p.b.column, p.b.row,
                       p.b.column, range.count, columns};
    add_product(tile, a, b, down, across, sums);
  }
  T* w = static_cast<T*>(p.w.data) + expert * p.w_expert + row * p.w.row + column * p.w.column;
  store_sums(w, p.w.row, p.w.column, rows, columns, down, across, sums, p.accumulate);
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
