#include "runtime/kernels/attention_call.h"

#include <array>

namespace piper::kernels {
namespace {

void want_like(const at::Tensor& tensor, const at::Tensor& like, const char* what) {
  if (!tensor.defined()) return;
  want_shape(tensor, like.sizes(), what);
  want_same_dtype(tensor, like);
}

AttentionShape shape_of(const Call& call, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  if (q.dim() != 4 || k.dim() != 4) refuse("q, k and v are not of rank 4");
  const AttentionShape a{q.size(0),
                         q.size(1),
                         k.size(1),
                         q.size(2),
                         k.size(2),
                         q.size(3),
                         call.attr_bool("is_causal"),
                         call.attr_double("scale")};
  if (a.key_heads < 1 || a.heads % a.key_heads != 0) refuse(a.heads, " heads over ", a.key_heads, " key heads");
  want_shape(k, {a.batch, a.key_heads, a.keys, a.head_dim}, "k");
  want_like(v, k, "v");
  want_same_dtype(q, k);
  return a;
}

at::Tensor mask_of(at::Tensor mask, const at::Tensor& q, const AttentionShape& a) {
  if (!mask.defined()) return mask;
  if (mask.scalar_type() != at::kBool) want_same_dtype(mask, q);
  if (mask.dim() > 4) refuse("a mask of rank ", mask.dim());
  while (mask.dim() < 4) mask = mask.unsqueeze(0);
  const std::array<int64_t, 4> scores = {a.batch, a.heads, a.queries, a.keys};
  for (int64_t axis = 0; axis < 4; ++axis) {
    if (mask.size(axis) != 1 && mask.size(axis) != scores[static_cast<size_t>(axis)])
      refuse("a mask of shape ", mask.sizes());
    if (mask.stride(axis) == 0 && mask.size(axis) > 1) mask = mask.narrow(axis, 0, 1);
  }
  return mask;
}

std::optional<form::Attends> attends_of(const Call& call, const at::Tensor& vectors, const AttentionShape& a) {
  const std::string text = call.attr_string_or_empty("attends");
  if (text.empty()) return std::nullopt;
  if (a.causal) refuse("`attends` together with `is_causal`");
  int64_t number = 0, places = 0;
  if (vectors.defined()) {
    want_dtype(vectors, at::kLong, "the vectors that `attends` reads");
    if (vectors.dim() != 4 || (vectors.size(0) != 1 && vectors.size(0) != a.batch) || vectors.size(1) != 1)
      refuse("vectors of shape ", vectors.sizes());
    number = vectors.size(2);
    places = vectors.size(3);
  }
  Result<form::Attends> parsed = form::parse_attends(text, a.queries, a.keys, number, places);
  if (!parsed.ok()) refuse("`attends`: ", parsed.error().message);
  return std::move(parsed).value();
}

void want_statistics(const at::Tensor& lse, const AttentionShape& a, const char* what) {
  if (!lse.defined()) return;
  want_dtype(lse, at::kFloat, what);
  want_shape(lse, {a.batch, a.heads, a.queries}, what);
}

}  // namespace

AttentionCall::AttentionCall(const Call& call)
    : q(call.in(0)), k(call.in(1)), v(call.in(2)), y(call.out(0)), lse(call.out(1)), shape(shape_of(call, q, k, v)) {
  attends = attends_of(call, call.in(3), shape);
  mask = attends ? call.in(3) : mask_of(call.in(3), q, shape);
  want_like(y, q, "the output");
  want_statistics(lse, shape, "output 1");
}

AttentionBackwardCall::AttentionBackwardCall(const Call& call)
    : g(call.in(0)),
      q(call.in(1)),
      k(call.in(2)),
      v(call.in(3)),
      y(call.in(4)),
      lse(call.in(5)),
      dq(call.out(0)),
      dk(call.out(1)),
      dv(call.out(2)),
      shape(shape_of(call, q, k, v)) {
  attends = attends_of(call, call.in(6), shape);
  mask = attends ? call.in(6) : mask_of(call.in(6), q, shape);
  want_like(g, q, "the gradient");
  want_like(y, q, "the forward's output");
  want_statistics(lse, shape, "the row statistics");
  want_like(dq, q, "output 0");
  want_like(dk, k, "output 1");
  want_like(dv, v, "output 2");
}

}  // namespace piper::kernels
