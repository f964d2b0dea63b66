// What is the same in the tiles of every instruction set. Used by sgemm_tile_*.cc, each with a struct `Set` of its own:
// kVector, the f32 elements of a vector; multiply<R, vectors, masked, direct>(tile); transpose(from, stride, lanes,
// depth, to, step), which makes to[p * step + lane] = from[lane * stride + p] for kVector x kVector elements or fewer.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/kernels/sgemm_tile.h"

namespace piper::kernels {

// R rows of a tile, with as few vectors and masks as its columns need.
template <class Set, int R, bool kDirect>
void tile_of_width(const TileOperands& t) {
  if (t.columns == 2 * Set::kVector) Set::template multiply<R, 2, false, kDirect>(t);
  else if (t.columns > Set::kVector) Set::template multiply<R, 2, true, kDirect>(t);
  else if (t.columns == Set::kVector) Set::template multiply<R, 1, false, kDirect>(t);
  else Set::template multiply<R, 1, true, kDirect>(t);
}

// Panels of lanes that lie apart.
template <class Set>
void pack_strided(const Lines& lines, float* to, int64_t width) {
  constexpr int64_t kVector = Set::kVector;
  for (int64_t start = 0; start < lines.lanes; start += width, to += width * lines.depth) {
    const int64_t lanes = std::min(width, lines.lanes - start);
    const float* from = lines.from + start * lines.lane_stride;
    for (int64_t p = 0; p < lines.depth; p += kVector)
      for (int64_t lane = 0; lane < lanes; lane += kVector) {
        const int64_t columns = std::min(kVector, lanes - lane), rows = std::min(kVector, lines.depth - p);
        if (lines.depth_stride == 1)
          Set::transpose(from + lane * lines.lane_stride + p, lines.lane_stride, columns, rows, to + p * width + lane,
                         width);
        else
          for (int64_t i = 0; i < rows; ++i)
            for (int64_t j = 0; j < columns; ++j)
              to[(p + i) * width + lane + j] = from[(lane + j) * lines.lane_stride + (p + i) * lines.depth_stride];
      }
  }
}

}  // namespace piper::kernels
