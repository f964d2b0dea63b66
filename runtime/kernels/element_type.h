// Element types of views as plans call them, for kernels that take several. Private to runtime/kernels.
#pragma once

#include "runtime/kernels/binding.h"
#include "schemas/plan/dtype.h"

namespace piper::kernels {

// Refuses what is neither f32 nor half of it.
inline DType element_type(const at::Tensor& tensor) {
  if (tensor.scalar_type() == at::kFloat) return DType::kF32;
  if (tensor.scalar_type() == at::kBFloat16) return DType::kBF16;
  if (tensor.scalar_type() == at::kHalf) return DType::kF16;
  refuse("an operand has element type ", toString(tensor.scalar_type()), " where f32, bf16 or f16 is expected");
}
inline void want_gradients(const at::Tensor& tensor) { (void)element_type(tensor); }

}  // namespace piper::kernels
