// The two loops of sgemm() that are written in AVX-512: a tile of c in registers, and packing. They are the
// only users of intrinsics there; call them where the processor has AVX-512 alone.
#pragma once

#include <cstdint>

namespace piper::kernels {

inline constexpr int64_t kTileRows = 14, kTileColumns = 32;  // 28 sums, 2 vectors of b and 1 of a: 31 registers

// c[rows, columns] (+)= a[rows, depth] b[depth, columns] + bias[columns], strides in elements.
struct TileOperands {
  int64_t depth, columns;  // columns: 1 to 32
  const float* a;
  int64_t a_step;  // between rows where `direct`, else between columns; the other stride is 1
  const float* b;
  int64_t b_step;  // between rows, which are dense
  float* c;
  int64_t c_row;
  const float* bias;  // nullptr: none
  bool add;
};
// rows: 1 to 14.
void multiply_tile(const TileOperands& tile, int64_t rows, bool direct);

// A matrix in panels of `width` lanes: element (lane, p) goes to to[(lane / width * depth + p) * width + lane % width].
// The last panel may be narrower than its room.
struct Lines {
  const float* from;  // element (lane, p) at lane * lane_stride + p * depth_stride
  int64_t lane_stride, depth_stride;
  int64_t lanes, depth;
};
void pack_panels(const Lines& lines, float* to, int64_t width);

}  // namespace piper::kernels
