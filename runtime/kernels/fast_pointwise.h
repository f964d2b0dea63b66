// Element-wise functions of the exponential, written on lanes of f32: several times faster than LibTorch's vector
// library, and with the same bits in a row's tail and for strided operands. bf16 and f16 are computed in f32 and
// rounded once. Used by the binders of tanh, erf and gelu; what is not served stays with LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>

namespace piper::kernels {

// Whether the functions below take these operands: f32 of any strides, or dense bf16 or f16.
bool serves_fast_pointwise(std::initializer_list<at::Tensor> operands);

// All operands of one type and shape; y may be an input. Absolute error in f32 below 2e-7 (tanh: relative).
void fast_tanh(const at::Tensor& y, const at::Tensor& x);
void fast_erf(const at::Tensor& y, const at::Tensor& x);
void fast_gelu_tanh(const at::Tensor& y, const at::Tensor& x);
// dx = g gelu'(x)
void fast_gelu_tanh_backward(const at::Tensor& dx, const at::Tensor& g, const at::Tensor& x);

}  // namespace piper::kernels
