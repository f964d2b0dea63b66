#include "runtime/kernels/cuda/library_attention.h"

#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_backward.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>

#include <array>
#include <limits>
#include <tuple>

#include "runtime/kernels/binding.h"

namespace piper::kernels::cuda {
namespace {

constexpr int64_t kPackBytes = 16;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

int64_t rounded_up(int64_t extent, int64_t to) { return (extent + to - 1) / to * to; }

struct Shape {
  int64_t batch, heads, key_heads, queries, keys, head_dim;
  bool causal;
  double scale;
};

void want_like(const at::Tensor& tensor, const at::Tensor& like, const char* what) {
  if (!tensor.defined()) return;
  want_shape(tensor, like.sizes(), what);
  want_same_dtype(tensor, like);
}

Shape shape_of(const Call& call, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  if (q.dim() != 4 || k.dim() != 4) refuse("q, k and v are not of rank 4");
  const Shape s{q.size(0),
                q.size(1),
                k.size(1),
                q.size(2),
                k.size(2),
                q.size(3),
                call.attr_bool("is_causal"),
                call.attr_double("scale")};
  if (s.key_heads < 1 || s.heads % s.key_heads != 0) refuse(s.heads, " heads over ", s.key_heads, " key heads");
  want_shape(k, {s.batch, s.key_heads, s.keys, s.head_dim}, "k");
  want_like(v, k, "v");
  want_same_dtype(q, k);
  return s;
}

// Of rank 4, and whether it fits: [B or 1, H or 1, S or 1, T or 1].
at::Tensor mask_of(const Call& call, size_t input, const at::Tensor& q, const Shape& s) {
  at::Tensor mask = call.in(input);
  if (!mask.defined()) return mask;
  if (mask.scalar_type() != at::kBool) want_same_dtype(mask, q);
  if (mask.dim() > 4) refuse("a mask of rank ", mask.dim());
  while (mask.dim() < 4) mask = mask.unsqueeze(0);
  const std::array<int64_t, 4> full = {s.batch, s.heads, s.queries, s.keys};
  for (int64_t axis = 0; axis < 4; ++axis) {
    if (mask.size(axis) != 1 && mask.size(axis) != full[static_cast<size_t>(axis)])
      refuse("a mask of shape ", mask.sizes());
    // An axis of stride 0 holds one value.
    if (axis < 3 && mask.stride(axis) == 0 && mask.size(axis) > 1) mask = mask.narrow(axis, 0, 1);
  }
  return mask;
}

// Rows of heads in packs: the tensor itself, or a copy in scratch whose heads are padded with zeros.
at::Tensor packed(const at::Tensor& t) {
  const int64_t pack = kPackBytes / t.element_size(), width = rounded_up(t.size(3), pack);
  bool as_it_is = width == t.size(3) && t.stride(3) == 1 && reinterpret_cast<uintptr_t>(t.data_ptr()) % kPackBytes == 0;
  for (int64_t axis = 0; axis < 3; ++axis) as_it_is &= t.size(axis) == 1 || t.stride(axis) % pack == 0;
  if (as_it_is) return t;
  at::Tensor copy = scratch({t.size(0), t.size(1), t.size(2), width}, t.scalar_type(), t);
  if (width > t.size(3)) copy.narrow(3, t.size(3), width - t.size(3)).zero_();
  copy.narrow(3, 0, t.size(3)).copy_(t);
  return copy;
}

// The same where rows of all heads stand one behind the other, [B, S, H, D] in memory: kernels are told no other place
// of a row of the forward's output.
at::Tensor packed_by_rows(const at::Tensor& t) {
  const int64_t width = rounded_up(t.size(3), kPackBytes / t.element_size());
  if (width == t.size(3) && t.transpose(1, 2).is_contiguous() &&
      reinterpret_cast<uintptr_t>(t.data_ptr()) % kPackBytes == 0)
    return t;
  const at::Tensor copy = scratch({t.size(0), t.size(2), t.size(1), width}, t.scalar_type(), t).transpose(1, 2);
  if (width > t.size(3)) copy.narrow(3, t.size(3), width - t.size(3)).zero_();
  copy.narrow(3, 0, t.size(3)).copy_(t);
  return copy;
}

// A head of keys for each of queries, each written as often as it is shared.
at::Tensor for_each_head(const at::Tensor& t, const Shape& s) {
  if (s.key_heads == s.heads) return packed(t);
  const int64_t shared = s.heads / s.key_heads;
  at::Tensor copy = scratch({s.batch, s.key_heads, shared, s.keys, s.head_dim}, t.scalar_type(), t);
  copy.copy_(t.unsqueeze(2).expand(copy.sizes()));
  return packed(copy.view({s.batch, s.heads, s.keys, s.head_dim}));
}
// The gradients of heads that share keys are added in f32, in their order.
void store_shared(const at::Tensor& out, const at::Tensor& gradient, const Shape& s) {
  if (!out.defined()) return;
  const at::Tensor narrow = gradient.narrow(3, 0, s.head_dim);
  if (s.key_heads == s.heads) {
    out.copy_(narrow);
    return;
  }
  const at::Tensor groups = narrow.unflatten(1, {s.key_heads, s.heads / s.key_heads});
  at::Tensor sum = scratch(out.sizes(), at::kFloat, out);
  sum.copy_(groups.select(2, 0));
  for (int64_t i = 1; i < groups.size(2); ++i) sum.add_(groups.select(2, i));
  out.copy_(sum);
}

// What is added to the scores, and which queries may attend to anything: [B or 1, H or 1, S or 1, 1].
struct Bias {
  std::optional<at::Tensor> values;
  at::Tensor attends;
};
Bias bias_of(const at::Tensor& mask, const at::Tensor& q, const Shape& s) {
  if (!mask.defined()) return {};
  constexpr int64_t kRow = 16;  // elements: rows begin at packs of any type
  const at::Tensor rows =
      scratch({mask.size(0), mask.size(1), mask.size(2), rounded_up(s.keys, kRow)}, q.scalar_type(), q);
  at::Tensor values = rows.narrow(3, 0, s.keys);
  if (mask.scalar_type() == at::kBool) {
    values.zero_();
    values.masked_fill_(mask.logical_not(), -kInfinity);
  } else {
    values.copy_(mask);
  }
  at::Tensor counts = values.ne(-kInfinity);
  if (s.causal) {
    const at::Tensor all = counts.expand({mask.size(0), mask.size(1), s.queries, s.keys});
    counts = all.logical_and(at::ones({s.queries, s.keys}, all.options()).tril());
  }
  return {values.expand({s.batch, s.heads, s.queries, s.keys}), counts.any(3, true)};
}

// Where no query attends to nothing, `attends` is undefined.
void store(const at::Tensor& out, const at::Tensor& result, const at::Tensor& attends, double otherwise) {
  if (!out.defined()) return;
  if (!attends.defined()) out.copy_(result);
  else out.copy_(at::where(attends, result, at::scalar_tensor(otherwise, result.options())));
}

std::unique_ptr<PreparedKernel> bind_cudnn(const Call& call) {
  const at::Tensor q = call.in(0), k = call.in(1), v = call.in(2), y = call.out(0), lse = call.out(1);
  const Shape s = shape_of(call, q, k, v);
  return make_kernel(call, [=] {
    const auto result = at::_scaled_dot_product_cudnn_attention(packed(q), packed(k), packed(v), std::nullopt,
                                                                lse.defined(), 0.0, s.causal, false, s.scale);
    y.copy_(std::get<0>(result).narrow(3, 0, s.head_dim));
    if (lse.defined()) lse.copy_(std::get<1>(result).reshape(lse.sizes()));
  });
}

std::unique_ptr<PreparedKernel> bind_flash(const Call& call) {
  const at::Tensor q = call.in(0), k = call.in(1), v = call.in(2), y = call.out(0), lse = call.out(1);
  const Shape s = shape_of(call, q, k, v);
  return make_kernel(call, [=] {
    const auto result =
        at::_scaled_dot_product_flash_attention(packed(q), packed(k), packed(v), 0.0, s.causal, false, s.scale);
    y.copy_(std::get<0>(result).narrow(3, 0, s.head_dim));
    if (lse.defined()) lse.copy_(std::get<1>(result));
  });
}

std::unique_ptr<PreparedKernel> bind_efficient(const Call& call) {
  const at::Tensor q = call.in(0), k = call.in(1), v = call.in(2), y = call.out(0), lse = call.out(1);
  const Shape s = shape_of(call, q, k, v);
  const at::Tensor mask = mask_of(call, 3, q, s);
  return make_kernel(call, [=] {
    const Bias bias = bias_of(mask, q, s);
    const auto result = at::_scaled_dot_product_efficient_attention(packed(q), for_each_head(k, s), for_each_head(v, s),
                                                                    bias.values, lse.defined(), 0.0, s.causal, s.scale);
    store(y, std::get<0>(result).narrow(3, 0, s.head_dim), bias.attends, 0);
    // Of as many rows as blocks have.
    if (lse.defined())
      store(lse, std::get<1>(result).narrow(2, 0, s.queries),
            bias.attends.defined() ? bias.attends.squeeze(3) : at::Tensor(), -kInfinity);
  });
}

// What both backwards have: [g, q, k, v, y, lse, mask?] -> [dq, dk, dv].
struct Backward {
  at::Tensor g, q, k, v, y, lse, dq, dk, dv;
  explicit Backward(const Call& call)
      : g(call.in(0)),
        q(call.in(1)),
        k(call.in(2)),
        v(call.in(3)),
        y(call.in(4)),
        lse(call.in(5)),
        dq(call.out(0)),
        dk(call.out(1)),
        dv(call.out(2)) {
    want_like(g, q, "the gradient");
    want_like(y, q, "the forward's output");
    want_dtype(lse, at::kFloat, "the row statistics");
    want_shape(lse, {q.size(0), q.size(1), q.size(2)}, "the row statistics");
    want_like(dq, q, "output 0");
    want_like(dk, k, "output 1");
    want_like(dv, v, "output 2");
  }
};

std::unique_ptr<PreparedKernel> bind_flash_backward(const Call& call) {
  const Backward b(call);
  const Shape s = shape_of(call, b.q, b.k, b.v);
  return make_same_bits_kernel(call, [=] {
    // Places of the generator, which nothing reads without dropout.
    const at::Tensor none = scratch({2}, at::kLong, b.q);
    const auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_backward(
        packed(b.g), packed(b.q), packed(b.k), packed(b.v), packed(b.y), dense(b.lse), {}, {}, s.queries, s.keys, 0.0,
        s.causal, none, none, s.scale);
    if (b.dq.defined()) b.dq.copy_(dq.narrow(3, 0, s.head_dim));
    if (b.dk.defined()) b.dk.copy_(dk.narrow(3, 0, s.head_dim));
    if (b.dv.defined()) b.dv.copy_(dv.narrow(3, 0, s.head_dim));
  });
}

std::unique_ptr<PreparedKernel> bind_efficient_backward(const Call& call) {
  const Backward b(call);
  const Shape s = shape_of(call, b.q, b.k, b.v);
  const at::Tensor mask = mask_of(call, 6, b.q, s);
  return make_same_bits_kernel(call, [=] {
    constexpr int64_t kRows = 32;  // of a block, for which the statistics are read at once
    const Bias bias = bias_of(mask, b.q, s);
    const at::Tensor none = scratch({}, at::kLong, b.q);
    // exp(score - infinity) is 0: of rows that are none, and of queries that attend to nothing.
    const at::Tensor lse = scratch({s.batch, s.heads, rounded_up(s.queries, kRows)}, at::kFloat, b.q);
    lse.fill_(kInfinity);
    store(lse.narrow(2, 0, s.queries), b.lse, bias.attends.defined() ? bias.attends.squeeze(3) : at::Tensor(),
          kInfinity);
    const auto [dq, dk, dv, none_of_the_bias] = at::_scaled_dot_product_efficient_attention_backward(
        packed_by_rows(b.g), packed(b.q), for_each_head(b.k, s), for_each_head(b.v, s),
        bias.values ? *bias.values : at::Tensor(), packed_by_rows(b.y), lse, none, none, 0.0, {true, true, true, false},
        s.causal, s.scale);
    store(b.dq, dq.narrow(3, 0, s.head_dim), bias.attends, 0);
    store_shared(b.dk, dk, s);
    store_shared(b.dv, dv, s);
  });
}

Binder binder_of(AttentionRow row, bool backward) {
  switch (row) {
    case AttentionRow::kCudnn: return backward ? nullptr : &bind_cudnn;
    case AttentionRow::kFlash: return backward ? &bind_flash_backward : &bind_flash;
    case AttentionRow::kEfficient: return backward ? &bind_efficient_backward : &bind_efficient;
    case AttentionRow::kOwn: break;
  }
  return nullptr;
}

}  // namespace

Result<std::unique_ptr<PreparedKernel>> bind_library_attention(AttentionRow row, const plan::KernelCall& call,
                                                               const std::vector<BoundOperand>& outputs,
                                                               const std::vector<BoundOperand>& inputs,
                                                               const OperatorDevice& device) {
  const Binder binder = binder_of(row, is_attention_backward(call));
  if (binder == nullptr) return misfit(call, std::string(name_of(row)) + " is no row of LibTorch's");
  return bind_row({plan::find_kernel(call.kernel), binder}, call, outputs, inputs, {}, device);
}

}  // namespace piper::kernels::cuda
