#include "runtime/kernels/cuda/library_attention.h"

#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>
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
#include "runtime/kernels/cuda/attends_bias.h"

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

// The same where rows of all heads are one after the other, [B, S, H, D] in memory: kernels are given no other place
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

at::Tensor rows_first(const at::Tensor& t) { return t.transpose(1, 2); }

// For a band, as FlashAttention's window.
std::unique_ptr<PreparedKernel> bind_flash_window(const Call& call, const AttentionCall& c) {
  return make_kernel(call, [c, band = form::band_of(*c.attends)] {
    const AttentionShape& s = c.shape;
    const auto result = at::_flash_attention_forward(rows_first(packed(c.q)), rows_first(packed(c.k)),
                                                     rows_first(packed(c.v)), std::nullopt, std::nullopt, s.queries,
                                                     s.keys, 0.0, false, false, s.scale, -band.low, band.high);
    c.y.copy_(rows_first(std::get<0>(result)).narrow(3, 0, s.head_dim));
    if (c.lse.defined()) c.lse.copy_(std::get<1>(result));
  });
}

std::unique_ptr<PreparedKernel> bind_flash(const Call& call) {
  const AttentionCall c(call);
  if (c.attends) return bind_flash_window(call, c);
  return make_kernel(call, [c] {
    const AttentionShape& s = c.shape;
    const auto result =
        at::_scaled_dot_product_flash_attention(packed(c.q), packed(c.k), packed(c.v), 0.0, s.causal, false, s.scale);
    c.y.copy_(std::get<0>(result).narrow(3, 0, s.head_dim));
    if (c.lse.defined()) c.lse.copy_(std::get<1>(result));
  });
}

// The shape of a block's attention: every query and key of it, and what the predicate says is the bias.
AttentionShape shape_of(const AttendsBlock& block, const AttentionShape& s) {
  AttentionShape of_block = s;
  of_block.queries = block.queries;
  of_block.keys = block.keys;
  return of_block;
}
at::Tensor queries_of(const AttendsBlock& block, const at::Tensor& t) {
  return t.narrow(2, block.query, block.queries);
}
at::Tensor keys_of(const AttendsBlock& block, const at::Tensor& t) { return t.narrow(2, block.key, block.keys); }
at::Tensor by_query(const at::Tensor& attends) { return attends.defined() ? attends.squeeze(3) : attends; }

// Calls f(block, its shape, its bias) for each block of a call by a predicate.
template <class Call, class F>
void for_each_block(const Call& c, const std::vector<form::Step>& steps, const F& f) {
  for (const AttendsBlock& block : blocks_of(*c.attends, c.shape.batch)) {
    const AttentionShape shape = shape_of(block, c.shape);
    f(block, shape, bias_of(attends_in(block, steps, c.mask, c.q.device()), c.q, shape));
  }
}

std::unique_ptr<PreparedKernel> bind_efficient_by_blocks(const Call& call, const AttentionCall& c) {
  return make_kernel(call, [c, steps = *form::program_of(c.attends->where)] {
    const AttentionShape& s = c.shape;
    const at::Tensor q = packed(c.q), k = for_each_head(c.k, s), v = for_each_head(c.v, s);
    for_each_block(c, steps, [&](const AttendsBlock& block, const AttentionShape& of_block, const Bias& bias) {
      const auto result =
          at::_scaled_dot_product_efficient_attention(queries_of(block, q), keys_of(block, k), keys_of(block, v),
                                                      bias.values, c.lse.defined(), 0.0, false, s.scale);
      store(queries_of(block, c.y), std::get<0>(result).narrow(3, 0, s.head_dim), bias.attends, 0);
      if (c.lse.defined())
        store(queries_of(block, c.lse), std::get<1>(result).narrow(2, 0, of_block.queries), by_query(bias.attends),
              -kInfinity);
    });
  });
}

std::unique_ptr<PreparedKernel> bind_efficient(const Call& call) {
  const AttentionCall c(call);
  if (c.attends) return bind_efficient_by_blocks(call, c);
  return make_kernel(call, [c] {
    const AttentionShape& s = c.shape;
    const Bias bias = bias_of(c.mask, c.q, s);
    const auto result =
        at::_scaled_dot_product_efficient_attention(packed(c.q), for_each_head(c.k, s), for_each_head(c.v, s),
                                                    bias.values, c.lse.defined(), 0.0, s.causal, s.scale);
    store(c.y, std::get<0>(result).narrow(3, 0, s.head_dim), bias.attends, 0);
    // For as many rows as blocks have.
    if (c.lse.defined()) store(c.lse, std::get<1>(result).narrow(2, 0, s.queries), by_query(bias.attends), -kInfinity);
  });
}

std::unique_ptr<PreparedKernel> bind_flash_window_backward(const Call& call, const AttentionBackwardCall& c) {
  return make_same_bits_kernel(call, [c, band = form::band_of(*c.attends)] {
    const AttentionShape& s = c.shape;
    const at::Tensor none = scratch({2}, at::kLong, c.q);
    const auto [dq, dk, dv] =
        at::_flash_attention_backward(rows_first(packed(c.g)), rows_first(packed(c.q)), rows_first(packed(c.k)),
                                      rows_first(packed(c.v)), rows_first(packed(c.y)), dense(c.lse), {}, {}, s.queries,
                                      s.keys, 0.0, false, none, none, s.scale, -band.low, band.high);
    const auto give = [&](const at::Tensor& out, const at::Tensor& gradient) {
      if (out.defined()) out.copy_(rows_first(gradient).narrow(3, 0, s.head_dim));
    };
    give(c.dq, dq);
    give(c.dk, dk);
    give(c.dv, dv);
  });
}

std::unique_ptr<PreparedKernel> bind_flash_backward(const Call& call) {
  const AttentionBackwardCall c(call);
  if (c.attends) return bind_flash_window_backward(call, c);
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

// The saved statistics as the kernel reads them, as many rows at once.
at::Tensor read_statistics(const at::Tensor& saved, const AttentionShape& s, const at::Tensor& attends) {
  constexpr int64_t kRows = 32;
  // exp(score - infinity) is 0: of rows that are none, and of queries that attend to nothing.
  const at::Tensor lse = scratch({s.batch, s.heads, rounded_up(s.queries, kRows)}, at::kFloat, saved);
  lse.fill_(kInfinity);
  store(lse.narrow(2, 0, s.queries), saved, by_query(attends), kInfinity);
  return lse;
}

std::unique_ptr<PreparedKernel> bind_efficient_backward_by_blocks(const Call& call, const AttentionBackwardCall& c) {
  return make_same_bits_kernel(call, [c, steps = *form::program_of(c.attends->where)] {
    const AttentionShape& s = c.shape;
    const at::Tensor q = packed(c.q), k = for_each_head(c.k, s), v = for_each_head(c.v, s),
                     none = scratch({}, at::kLong, c.q);
    // Blocks add to the gradients of keys, in their order.
    const at::Tensor k_sums = scratch(k.sizes(), at::kFloat, k), v_sums = scratch(v.sizes(), at::kFloat, v);
    k_sums.zero_();
    v_sums.zero_();
    for_each_block(c, steps, [&](const AttendsBlock& block, const AttentionShape& of_block, const Bias& bias) {
      const auto [dq, dk, dv, none_of_the_bias] = at::_scaled_dot_product_efficient_attention_backward(
          packed_by_rows(queries_of(block, c.g)), queries_of(block, q), keys_of(block, k), keys_of(block, v),
          *bias.values, packed_by_rows(queries_of(block, c.y)),
          read_statistics(queries_of(block, c.lse), of_block, bias.attends), none, none, 0.0, {true, true, true, false},
          false, s.scale);
      if (c.dq.defined()) store(queries_of(block, c.dq), dq.narrow(3, 0, s.head_dim), bias.attends, 0);
      keys_of(block, k_sums).add_(dk);
      keys_of(block, v_sums).add_(dv);
    });
    store_shared(c.dk, k_sums, s);
    store_shared(c.dv, v_sums, s);
  });
}

std::unique_ptr<PreparedKernel> bind_efficient_backward(const Call& call) {
  const AttentionBackwardCall c(call);
  if (c.attends) return bind_efficient_backward_by_blocks(call, c);
  return make_same_bits_kernel(call, [c] {
    const AttentionShape& s = c.shape;
    const Bias bias = bias_of(c.mask, c.q, s);
    const at::Tensor none = scratch({}, at::kLong, c.q);
    const at::Tensor lse = read_statistics(c.lse, s, bias.attends);
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
