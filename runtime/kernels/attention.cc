// Scaled dot-product attention: own kernels where they serve (short_attention.h), else the flash kernels behind
// LibTorch's operator, which write into given outputs through their strides. Compiled with the definitions that
// DispatchStub.h wants. The flash kernels take no bool mask: it becomes 0 / -inf in scratch, at every run, because a
// mask may be data. A row that may attend to nothing gives 0, and gradient 0, as PyTorch's softmax does there. In f64
// the saved row statistics, which are f32, are computed again in the backward.
#include <ATen/native/transformers/attention.h>

#include <ATen/ops/masked_fill.h>

#include <limits>

#include "runtime/kernels/binding.h"
#include "runtime/kernels/short_attention.h"

namespace piper::kernels {
namespace {

AttentionShape check_attention(const Call& call, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  if (q.dim() != 4 || k.dim() != 4 || v.dim() != 4) refuse("q, k and v are not of rank 4");
  AttentionShape a{q.size(0),
                   q.size(1),
                   k.size(1),
                   q.size(2),
                   k.size(2),
                   q.size(3),
                   call.attr_bool("is_causal"),
                   call.attr_double("scale")};
  if (a.key_heads < 1 || a.heads % a.key_heads != 0) refuse(a.heads, " heads over ", a.key_heads, " key heads");
  want_shape(k, {a.batch, a.key_heads, a.keys, a.head_dim}, "k");
  want_shape(v, {a.batch, a.key_heads, a.keys, a.head_dim}, "v");
  want_same_dtype(q, k);
  want_same_dtype(q, v);
  return a;
}
void want_mask(const at::Tensor& mask, const at::Tensor& q, const AttentionShape& a) {
  if (!mask.defined()) return;
  if (mask.scalar_type() != at::kBool) want_same_dtype(mask, q);
  const int64_t full[4] = {a.batch, a.heads, a.queries, a.keys};
  if (mask.dim() > 4) refuse("a mask of rank ", mask.dim());
  for (int64_t axis = 0; axis < mask.dim(); ++axis) {
    const int64_t extent = mask.size(axis), want = full[4 - mask.dim() + axis];
    if (extent != 1 && extent != want) refuse("a mask of shape ", mask.sizes());
  }
}

// [B|1, H|1, S, T] as the flash kernels read it: floating, queries and keys written out by stride 0.
std::optional<at::Tensor> flash_mask(const at::Tensor& mask, const at::Tensor& q, const AttentionShape& a) {
  if (!mask.defined()) return std::nullopt;
  at::Tensor m = mask;
  while (m.dim() < 4) m = m.unsqueeze(0);
  // Axes of stride 0 hold one value: convert that one.
  for (int64_t axis = 0; axis < 4; ++axis)
    if (m.stride(axis) == 0 && m.size(axis) > 1) m = m.narrow(axis, 0, 1);
  if (m.scalar_type() == at::kBool) {
    at::Tensor values = scratch(m.sizes(), q.scalar_type(), m);
    values.fill_(-std::numeric_limits<double>::infinity());
    values.masked_fill_(m, 0);
    m = values;
  }
  return m.expand({m.size(0), m.size(1), a.queries, a.keys});
}

at::Tensor rows_first(const at::Tensor& t) { return t.transpose(1, 2); }
// The kernels want elements of a head side by side.
at::Tensor dense_heads(const at::Tensor& t) { return t.stride(3) == 1 || t.size(3) == 1 ? t : dense(t); }
// The own kernels compute bf16 and f16 in f32.
at::Tensor computed_heads(const at::Tensor& t) {
  return computed_type(t) == t.scalar_type() ? dense_heads(t) : dense_computed(t);
}
// Where a result is computed: in place, or in scratch that is stored behind.
at::Tensor computed_result(const at::Tensor& t) {
  const bool in_place = t.stride(3) == 1 && computed_type(t) == t.scalar_type();
  return in_place ? t : scratch(t.sizes(), computed_type(t), t);
}

void forward(at::Tensor& y, at::Tensor& lse, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
             const AttentionShape& a, const std::optional<at::Tensor>& mask) {
  at::native::flash_attention_kernel(at::kCPU, rows_first(y), lse.transpose(1, 2), q, k, v, 0.0, a.causal, mask,
                                     a.scale);
}

}  // namespace

std::unique_ptr<PreparedKernel> bind_scaled_dot_product_attention(const Call& call) {
  const at::Tensor q = call.in(0), k = call.in(1), v = call.in(2), mask = call.in(3);
  const AttentionShape a = check_attention(call, q, k, v);
  want_mask(mask, q, a);
  want_shape(call.out(0), q.sizes(), "the output");
  want_same_dtype(call.out(0), q);
  if (call.out(1).defined()) {
    want_dtype(call.out(1), at::kFloat, "output 1");
    want_shape(call.out(1), {a.batch, a.heads, a.queries}, "output 1");
  }
  if (serves_short_attention(a, q, mask))
    return make_kernel(call, [y = call.out(0), lse = call.out(1), q, k, v, a]() mutable {
      at::Tensor result = computed_result(y);
      short_attention(a, result, lse, computed_heads(q), computed_heads(k), computed_heads(v));
      if (!result.is_same(y)) y.copy_(result);
    });
  return make_kernel(call, [y = call.out(0), lse = call.out(1), q, k, v, mask, a]() mutable {
    const bool own_type = q.scalar_type() != at::kDouble;
    at::Tensor statistics =
        own_type && lse.defined() ? lse : scratch({a.batch, a.heads, a.queries}, computed_type(q), q);
    at::Tensor result = y.stride(3) == 1 ? y : scratch_like(y);
    forward(result, statistics, dense_heads(q), dense_heads(k), dense_heads(v), a, flash_mask(mask, q, a));
    if (!result.is_same(y)) y.copy_(result);
    if (lse.defined() && !statistics.is_same(lse)) lse.copy_(statistics);
  });
}

std::unique_ptr<PreparedKernel> bind_scaled_dot_product_attention_backward(const Call& call) {
  const at::Tensor g = call.in(0), q = call.in(1), k = call.in(2), v = call.in(3), y = call.in(4), lse = call.in(5),
                   mask = call.in(6);
  const AttentionShape a = check_attention(call, q, k, v);
  want_mask(mask, q, a);
  want_shape(g, q.sizes(), "the gradient");
  want_shape(y, q.sizes(), "the forward's output");
  want_shape(lse, {a.batch, a.heads, a.queries}, "the row statistics");
  want_dtype(lse, at::kFloat, "the row statistics");
  if (call.out(0).defined()) want_shape(call.out(0), q.sizes(), "output 0");
  if (call.out(1).defined()) want_shape(call.out(1), k.sizes(), "output 1");
  if (call.out(2).defined()) want_shape(call.out(2), v.sizes(), "output 2");
  for (const at::Tensor& t : {g, y, call.out(0), call.out(1), call.out(2)})
    if (t.defined()) want_same_dtype(t, q);
  if (serves_short_attention(a, q, mask))
    return make_kernel(call, [dq = call.out(0), dk = call.out(1), dv = call.out(2), g, q, k, v, y, lse, a] {
      const auto target = [](const at::Tensor& out, const at::Tensor& like) {
        return out.defined() ? computed_result(out) : scratch(like.sizes(), computed_type(like), like);
      };
      const AttentionGradients gradients{target(dq, q), target(dk, k), target(dv, v)};
      short_attention_backward(a, gradients, computed_heads(g), computed_heads(q), computed_heads(k), computed_heads(v),
                               computed_heads(y), lse);
      const auto give = [](const at::Tensor& out, const at::Tensor& result) {
        if (out.defined() && !result.is_same(out)) out.copy_(result);
      };
      give(dq, gradients.dq);
      give(dk, gradients.dk);
      give(dv, gradients.dv);
    });
  return make_kernel(
      call, [dq = call.out(0), dk = call.out(1), dv = call.out(2), g, q, k, v, y, lse, mask, a]() mutable {
        const at::Tensor dense_g = dense_heads(g), dense_q = dense_heads(q), dense_k = dense_heads(k),
                         dense_v = dense_heads(v), dense_y = dense_heads(y);
        // Each of the three results exists, and LibTorch's kernel adds into it.
        const auto target = [](const at::Tensor& out, const at::Tensor& like) {
          at::Tensor t = out.defined() && out.stride(3) == 1 ? out : scratch_like(like);
          t.zero_();
          return t;
        };
        at::Tensor new_q = target(dq, q), new_k = target(dk, k), new_v = target(dv, v);
        const auto float_mask = flash_mask(mask, q, a);
        at::Tensor statistics = lse;
        if (q.scalar_type() == at::kDouble) {
          statistics = scratch({a.batch, a.heads, a.queries}, q.scalar_type(), q);
          at::Tensor again = scratch_like(q);
          forward(again, statistics, dense_q, dense_k, dense_v, a, float_mask);
        }
        at::native::flash_attention_backward_kernel(at::kCPU, rows_first(new_q), rows_first(new_k), rows_first(new_v),
                                                    rows_first(dense_g), rows_first(dense_q), rows_first(dense_k),
                                                    rows_first(dense_v), rows_first(dense_y),
                                                    statistics.transpose(1, 2), 0.0, a.causal, float_mask, a.scale);
        if (dq.defined() && !new_q.is_same(dq)) dq.copy_(new_q);
        if (dk.defined() && !new_k.is_same(dk)) dk.copy_(new_k);
        if (dv.defined() && !new_v.is_same(dv)) dv.copy_(new_v);
      });
}

}  // namespace piper::kernels
