// f32 element-wise functions of the exponential, written on lanes: several times faster than LibTorch's
// vector library, and with the same bits in a row's tail and for strided operands. Used by the binders of
// tanh, erf and gelu; other element types stay with LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

namespace piper::kernels {

// All operands f32 of one shape, any strides; y may be an input. Absolute error below 2e-7 (tanh: relative).
void tanh_f32(const at::Tensor& y, const at::Tensor& x);
void erf_f32(const at::Tensor& y, const at::Tensor& x);
void gelu_tanh_f32(const at::Tensor& y, const at::Tensor& x);
// dx = g gelu'(x)
void gelu_tanh_backward_f32(const at::Tensor& dx, const at::Tensor& g, const at::Tensor& x);

}  // namespace piper::kernels
