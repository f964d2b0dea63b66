// Calls of attention and of its gradient, read and checked: what LibTorch's rows for them have in common on every
// device. All constructors refuse operands that do not fit.
#pragma once

#include <optional>

#include "runtime/kernels/binding.h"
#include "schemas/forms/attends.h"

namespace piper::kernels {

struct AttentionShape {
  int64_t batch, heads, key_heads, queries, keys, head_dim;
  bool causal;  // query i sees keys 0 to i
  double scale;
};

// [q, k, v, mask?] -> [y, lse?]: q and y [batch, heads, queries, head_dim], k and v [batch, key_heads, keys, head_dim],
// lse f32 [batch, heads, queries]. The mask has rank 4, extents of the scores or 1, and one value along axes of stride
// 0; undefined where the call has none. Where the call says `attends`, the mask is the vectors that it reads instead.
struct AttentionCall {
  explicit AttentionCall(const Call& call);
  at::Tensor q, k, v, mask, y, lse;
  AttentionShape shape;
  std::optional<form::Attends> attends;
};

// [g, q, k, v, y, lse, mask?] -> [dq?, dk?, dv?], each as in the forward.
struct AttentionBackwardCall {
  explicit AttentionBackwardCall(const Call& call);
  at::Tensor g, q, k, v, y, lse, mask, dq, dk, dv;
  AttentionShape shape;
  std::optional<form::Attends> attends;
};

}  // namespace piper::kernels
