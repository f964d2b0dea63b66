// The addition of the CPU's sums over ranks: what the members sent of one piece is added in the order of the positions
// in the group. Used by all_reduce.h and reduce_scatter.h, which therefore give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "schemas/plan/plan.h"

namespace piper::hal {

using AddF32 = void (*)(float* dst, const float* src, int64_t count);

// Whether a sum of these types is implemented: of one type f32, f64, i64 and i32 are; of several, and of bf16 and f16,
// what is added in f32.
bool can_sum(const plan::SumTypes& types);

struct PositionSum {
  plan::SumTypes types;
  AddF32 add_f32 = nullptr;
  int64_t members = 1, position = 0;
  // The others' pieces, of the message's type, by position without the own one, `stride` bytes apart; 64-byte aligned.
  // Overwritten.
  std::byte* scratch = nullptr;
  int64_t stride = 0;

  std::byte* place_of(int64_t member) const { return scratch + (member < position ? member : member - 1) * stride; }
  // `own`: this member's values of the piece, of the message's type; `out` gets the sum, of the data's type. They are
  // the same memory where the types are the same.
  void add_piece(std::byte* own, std::byte* out, int64_t count) const;

 private:
  void add_in_f32(const std::byte* own, std::byte* out, int64_t count) const;
};

}  // namespace piper::hal
