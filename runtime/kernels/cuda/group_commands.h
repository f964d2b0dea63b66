// What CUDA's kernels do for groups of ranks that sum in position order (hal/position_group.h), as commands for a
// CudaQueue.
#pragma once

#include "runtime/hal/position_group.h"

namespace piper::kernels::cuda {

// R0404: types that are not added, or not made of each other.
hal::MadeCommand make_piece_sum(const hal::PieceSum& sum);
// Elements of f32, bf16 and f16 as each other, or of one type as they are.
hal::MadeCommand make_conversion(hal::Elements to, hal::Elements from, int64_t count);

}  // namespace piper::kernels::cuda
