// The addition of the CPU's sums over ranks: what the other members sent of one piece is added to the
// own values in the order of the positions in the group. Used by all_reduce.h and reduce_scatter.h,
// which therefore give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "schemas/plan/dtype.h"

namespace piper::hal {

using AddF32 = void (*)(float* dst, const float* src, int64_t count);

// Whether a sum of this type is implemented: f32, f64, i64 and i32 are.
bool can_sum(DType dtype);

struct PositionSum {
  DType dtype = DType::kF32;
  AddF32 add_f32 = nullptr;
  int64_t members = 1, position = 0;
  // The others' pieces, by position without the own one, `stride` bytes apart; 64-byte aligned. Overwritten.
  std::byte* scratch = nullptr;
  int64_t stride = 0;

  std::byte* place_of(int64_t member) const { return scratch + (member < position ? member : member - 1) * stride; }
  // `own`: this member's values of the piece, replaced by the sum.
  void add_piece(std::byte* own, int64_t count) const;
};

}  // namespace piper::hal
