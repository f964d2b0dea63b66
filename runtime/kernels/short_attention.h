// Attention in f32 over at most 1024 keys and without a mask operand, on the tiles of the own products: whole rows
// of scores fit a cache, and the half that causal attention hides is not computed. Used by attention.cc, which
// keeps LibTorch's flash kernels for everything else.
//
// Bits of a row depend on its sample and head alone, not on the batch or the number of threads.
#pragma once

#include "runtime/kernels/attention_call.h"

namespace piper::kernels {

// Whether calls of f32, bf16 or f16 are served, by the element type of q. Refuses as chosen_own_products() does.
bool serves_short_attention(const AttentionShape& shape, const at::Tensor& q, const at::Tensor& mask);

// All in f32, q [batch, heads, queries, head_dim], k and v [batch, key_heads, keys, head_dim]. Elements of head_dim lie
// side by side in every operand; lse is [batch, heads, queries], any strides, or undefined.
void short_attention(const AttentionShape& shape, const at::Tensor& y, const at::Tensor& lse, const at::Tensor& q,
                     const at::Tensor& k, const at::Tensor& v);

// Gradients of q, k and v from that of y; all three are defined and written.
struct AttentionGradients {
  at::Tensor dq, dk, dv;
};
void short_attention_backward(const AttentionShape& shape, const AttentionGradients& gradients, const at::Tensor& g,
                              const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& y,
                              const at::Tensor& lse);

}  // namespace piper::kernels
