// What Muon does to a whole matrix: its update is made nearly orthogonal. Used by optimizer.cc.
#pragma once

#include <cstdint>

#include "runtime/kernels/binding.h"

namespace piper::kernels {

// `matrix`, f32 and dense: U S V^T becomes about U V^T, by `steps` of a Newton-Schulz iteration on the matrix divided
// by the larger of its Frobenius norm and eps. Products run in f32 on the threads of at::parallel_for; takes scratch
// for one more matrix of its shape and two of the square of its shorter side.
void orthogonalise(const at::Tensor& matrix, int64_t steps, double eps);

}  // namespace piper::kernels
