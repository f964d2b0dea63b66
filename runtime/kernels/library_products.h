// Matrix products by LibTorch's library, for every element type. Used where the own products (sgemm.h) do not serve.
#pragma once

#include "runtime/kernels/binding.h"

namespace piper::kernels {

// Whether products of this type are computed in f32 and rounded once: f16 always, bf16 on processors without AVX-512.
// There the library has a loop without vectors, a hundred times slower than its products of f32. Takes scratch for f32
// copies of all operands.
bool products_in_f32(at::ScalarType type);

// out (+)= a b + bias on views of rank 2, any strides, or of rank 3, matrix by matrix and without bias. `bias`:
// undefined where the product accumulates.
void library_product(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias,
                     bool accumulate);

}  // namespace piper::kernels
