// Elements of a row, kPack neighbours a thread at a time: in one access where they lie side by side, one by one
// elsewhere. Which thread has which elements, and in which order, is the same either way, and so are the bits of sums.
// For .cu files.
#pragma once

#include "runtime/kernels/cuda/device_code.h"
#include "runtime/kernels/cuda/layout.h"

namespace piper::kernels::cuda {

template <class T>
struct RowOf {
  T* data;  // of the row
  const Layout& column;
  int64_t columns;
  bool packed;

  // Those after the row become `rest`.
  __device__ void read(int64_t first, Computed<T> rest, Computed<T> (&to)[kPack]) const {
    if (packed) {
      const auto pack = *reinterpret_cast<const Pack<T>*>(data + first);
      for (int i = 0; i < kPack; ++i) to[i] = widen(pack.values[i]);
    } else {
      for (int i = 0; i < kPack; ++i) to[i] = first + i < columns ? widen(data[column.at(first + i)]) : rest;
    }
  }
  __device__ void write(int64_t first, const Computed<T> (&from)[kPack]) const {
    if (packed) {
      Pack<T> pack;
      for (int i = 0; i < kPack; ++i) pack.values[i] = rounded<T>(from[i]);
      *reinterpret_cast<Pack<T>*>(data + first) = pack;
    } else {
      for (int i = 0; i < kPack && first + i < columns; ++i) data[column.at(first + i)] = rounded<T>(from[i]);
    }
  }
};

// Whether all rows can be read in packs.
template <class T>
bool rows_hold_packs(const void* data, const Layout& row, const Layout& column, int64_t columns) {
  if (!holds_packs(static_cast<const T*>(data)) || columns % kPack != 0 || !column.dense()) return false;
  for (int axis = 0; axis < row.axes; ++axis)
    if (row.extent[axis] > 1 && row.stride[axis] % kPack != 0) return false;
  return true;
}

// Rows up to this long are a warp's, several to a block; longer ones a block's.
constexpr int64_t kMostOfWarp = 1024;
constexpr int kRowsOfBlock = 8, kBlockTeam = 256;

// Calls body(team, grid, block) for rows of `columns`: team as std::integral_constant.
template <int kValue>
struct Constant {
  static constexpr int value = kValue;
};
template <class F>
void by_team(int64_t rows, int64_t columns, F&& body) {
  if (rows == 0) return;
  if (columns <= kMostOfWarp) body(Constant<kWarp>(), grid_of(ceil_div(rows, kRowsOfBlock)), dim3(kWarp, kRowsOfBlock));
  else body(Constant<kBlockTeam>(), grid_of(rows), dim3(kBlockTeam));
}
// The row of this thread's team.
__device__ inline int64_t row_of_team() { return static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; }

}  // namespace piper::kernels::cuda
