#include "runtime/kernels/cuda/library_attention.h"

#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_backward.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>

#include <limits>
#include <tuple>

#include "runtime/kernels/attention_call.h"

namespace piper::kernels::cuda {
namespace {

constexpr int64_t kPackBytes = 16;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

int64_t rounded_up(int64_t extent, int64_t to) { return (extent + to - 1) / to * to; }

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

// The same where rows of all heads stand one after the other, [B, S, H, D] in memory: kernels are given no other place
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
at::Tensor for_each_head(const at::Tensor& t, const AttentionShape& s) {
  if (s.key_heads == s.heads) return packed(t);
  const int64_t shared = s.heads / s.key_heads;
  at::Tensor copy = scratch({s.batch, s.key_heads, shared, s.keys, s.head_dim}, t.scalar_type(), t);
  copy.copy_(t.unsqueeze(2).expand(copy.sizes()));
  return packed(copy.view({s.batch, s.heads, s.keys, s.head_dim}));
}
// The gradients of heads that share keys are added in f32, in their order.
void store_shared(const at::Tensor& out, const at::Tensor& gradient, const AttentionShape& s) {
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
Bias bias_of(const at::Tensor& mask, const at::Tensor& q, const AttentionShape& s) {
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
  const AttentionCall c(call);
  return make_kernel(call, [c] {
    const AttentionShape& s = c.shape;
    const auto result = at::_scaled_dot_product_cudnn_attention(packed(c.q), packed(c.k), packed(c.v), std::nullopt,
                                                                c.lse.defined(), 0.0, s.causal, false, s.scale);
    c.y.copy_(std::get<0>(result).narrow(3, 0, s.head_dim));
    if (c.lse.defined()) c.lse.copy_(std::get<1>(result).reshape(c.lse.sizes()));
  });
}

std::unique_ptr<PreparedKernel> bind_flash(const Call& call) {
  const AttentionCall c(call);
  return make_kernel(call, [c] {
    const AttentionShape& s = c.shape;
    const auto result =
        at::_scaled_dot_product_flash_attention(packed(c.q), packed(c.k), packed(c.v), 0.0, s.causal, false, s.scale);
    c.y.copy_(std::get<0>(result).narrow(3, 0, s.head_dim));
    if (c.lse.defined()) c.lse.copy_(std::get<1>(result));
  });
}

std::unique_ptr<PreparedKernel> bind_efficient(const Call& call) {
  const AttentionCall c(call);
  return make_kernel(call, [c] {
    const AttentionShape& s = c.shape;
    const Bias bias = bias_of(c.mask, c.q, s);
    const auto result =
        at::_scaled_dot_product_efficient_attention(packed(c.q), for_each_head(c.k, s), for_each_head(c.v, s),
                                                    bias.values, c.lse.defined(), 0.0, s.causal, s.scale);
    store(c.y, std::get<0>(result).narrow(3, 0, s.head_dim), bias.attends, 0);
    // Of as many rows as blocks have.
    if (c.lse.defined())
      store(c.lse, std::get<1>(result).narrow(2, 0, s.queries),
            bias.attends.defined() ? bias.attends.squeeze(3) : at::Tensor(), -kInfinity);
  });
}

std::unique_ptr<PreparedKernel> bind_flash_backward(const Call& call) {
  const AttentionBackwardCall c(call);
  return make_same_bits_kernel(call, [c] {
    const AttentionShape& s = c.shape;
    // Places of the generator, which nothing reads without dropout.
    const at::Tensor none = scratch({2}, at::kLong, c.q);
    const auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_backward(
        packed(c.g), packed(c.q), packed(c.k), packed(c.v), packed(c.y), dense(c.lse), {}, {}, s.queries, s.keys, 0.0,
        s.causal, none, none, s.scale);
    if (c.dq.defined()) c.dq.copy_(dq.narrow(3, 0, s.head_dim));
    if (c.dk.defined()) c.dk.copy_(dk.narrow(3, 0, s.head_dim));
    if (c.dv.defined()) c.dv.copy_(dv.narrow(3, 0, s.head_dim));
  });
}

std::unique_ptr<PreparedKernel> bind_efficient_backward(const Call& call) {
  const AttentionBackwardCall c(call);
  return make_same_bits_kernel(call, [c] {
    const AttentionShape& s = c.shape;
    constexpr int64_t kRows = 32;  // of a block, for which the statistics are read at once
    const Bias bias = bias_of(c.mask, c.q, s);
    const at::Tensor none = scratch({}, at::kLong, c.q);
    // exp(score - infinity) is 0: of rows that are none, and of queries that attend to nothing.
    const at::Tensor lse = scratch({s.batch, s.heads, rounded_up(s.queries, kRows)}, at::kFloat, c.q);
    lse.fill_(kInfinity);
    store(lse.narrow(2, 0, s.queries), c.lse, bias.attends.defined() ? bias.attends.squeeze(3) : at::Tensor(),
          kInfinity);
    const auto [dq, dk, dv, none_of_the_bias] = at::_scaled_dot_product_efficient_attention_backward(
        packed_by_rows(c.g), packed(c.q), for_each_head(c.k, s), for_each_head(c.v, s),
        bias.values ? *bias.values : at::Tensor(), packed_by_rows(c.y), lse, none, none, 0.0, {true, true, true, false},
        s.causal, s.scale);
    store(c.dq, dq.narrow(3, 0, s.head_dim), bias.attends, 0);
    store_shared(c.dk, dk, s);
    store_shared(c.dv, dv, s);
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
