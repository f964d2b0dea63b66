// The addition of the CPU's sums over ranks: what the members sent of one piece is added in the order of the positions
// in the group.
#pragma once

#include <cstdint>

#include "runtime/hal/position_group.h"

namespace piper::hal {

using AddF32 = void (*)(float* dst, const float* src, int64_t count);

// R0404: f32, f64, i64 and i32 are added as they are, bf16 and f16 in f32.
Status check_sum(const PieceSum& sum);
// A sum that check_sum() passes, of host memory.
void add_piece(const PieceSum& sum, AddF32 add_f32);

}  // namespace piper::hal
