// What sgemm() and short_attention() are built on, once for each instruction set: a tile of c in registers, and
// packing. The two files that implement it are the only users of intrinsics there. An element of c is one chain of
// fused multiply-adds in every one of them: the same bits.
#pragma once

#include <cstdint>

namespace piper::kernels {

// c[rows, columns] (+)= a[rows, depth] b[depth, columns] + bias[columns], strides in elements.
struct TileOperands {
  int64_t depth, columns;  // columns: 1 to Tiles::columns
  const float* a;
  int64_t a_step;  // between rows where `direct`, else between columns; the other stride is 1
  const float* b;
  int64_t b_step;  // between rows, which are dense
  float* c;
  int64_t c_row;
  const float* bias;  // nullptr: none
  bool add;
};

// A matrix in panels of `width` lanes: element (lane, p) goes to to[(lane / width * depth + p) * width + lane % width].
// The last panel may be narrower than its room.
struct Lines {
  const float* from;  // element (lane, p) at lane * lane_stride + p * depth_stride
  int64_t lane_stride, depth_stride;
  int64_t lanes, depth;
};

// Call multiply and pack only where supported() is true.
struct Tiles {
  int64_t rows, columns;                                                  // of a full tile
  void (*multiply)(const TileOperands& tile, int64_t rows, bool direct);  // rows: 1 to `rows`
  void (*pack)(const Lines& lines, float* to, int64_t width);             // width: `rows` or `columns`
  bool (*supported)();
};
inline constexpr int64_t kMostTileRows = 14, kMostTileColumns = 32;

extern const Tiles kAvx512Tiles;  // 14 x 32: 28 sums, 2 vectors of b and 1 of a in 32 registers
extern const Tiles kAvx2Tiles;    // 6 x 16: 12 sums, 2 vectors of b and 1 of a in 16 registers

}  // namespace piper::kernels
