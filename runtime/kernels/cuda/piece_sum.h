// Launch of a sum of pieces from ranks (hal/position_group.h), added in the order of their positions.
#pragma once

#include "runtime/hal/position_group.h"

typedef struct CUstream_st* cudaStream_t;

namespace piper::kernels::cuda {

// f32, f64, i64 and i32 are added as they are, bf16 and f16 in f32 and rounded once: the CPU's bits. The others' pieces
// are left as they are.
void launch_piece_sum(const hal::PieceSum& sum, cudaStream_t stream);

}  // namespace piper::kernels::cuda
