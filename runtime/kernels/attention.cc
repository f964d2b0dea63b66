// Scaled dot-product attention: own kernels where they serve (short_attention.h), else the flash kernels underlying
// LibTorch's operator, which write into given outputs through their strides. Compiled with the definitions that
// DispatchStub.h wants. The flash kernels take no bool mask: it becomes 0 / -inf in scratch, at every run, because a
// mask may be data. Where a predicate says the mask, attention goes by blocks of queries, each over the keys that it
// may attend to, and bf16 and f16 are computed in f32, because blocks add to the gradients of keys. A row that may
// attend to nothing gives 0, and gradient 0, as PyTorch's softmax does there. In f64 the saved row statistics, which
// are f32, are computed again in the backward.
#include <ATen/native/transformers/attention.h>

#include <ATen/ops/masked_fill.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "runtime/kernels/attends_tile.h"
#include "runtime/kernels/attention_call.h"
#include "runtime/kernels/short_attention.h"

namespace piper::kernels {
namespace {

// [B|1, H|1, S, T] as the flash kernels read it: floating, queries and keys written out by stride 0.
std::optional<at::Tensor> flash_mask(const at::Tensor& mask, const at::Tensor& q, const AttentionShape& a) {
  if (!mask.defined()) return std::nullopt;
  at::Tensor m = mask;
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
// Where a result is computed: in place, or in scratch that is stored after.
at::Tensor computed_result(const at::Tensor& t) {
  const bool in_place = t.stride(3) == 1 && computed_type(t) == t.scalar_type();
  return in_place ? t : scratch(t.sizes(), computed_type(t), t);
}

void forward(const at::Tensor& y, const at::Tensor& lse, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
             const AttentionShape& a, const std::optional<at::Tensor>& mask) {
  at::native::flash_attention_kernel(at::kCPU, rows_first(y), lse.transpose(1, 2), q, k, v, 0.0, a.causal, mask,
                                     a.scale);
}

// Calls f(sample, first query, last query, keys, mask) for each block of queries of each sample.
template <class F>
void for_each_block(const AttendsTile& tile, const AttentionShape& a, const at::Tensor& like, const F& f) {
  const at::Tensor memory = scratch({AttendsTile::elements(a.keys)}, like.scalar_type(), like);
  for (int64_t sample = 0; sample < a.batch; ++sample)
    for (int64_t first = 0; first < a.queries; first += AttendsTile::kQueries) {
      const int64_t last = std::min(first + AttendsTile::kQueries, a.queries);
      form::KeyRange keys;
      if (like.scalar_type() == at::kDouble) keys = tile.fill(memory.data_ptr<double>(), sample, first, last);
      else keys = tile.fill(memory.data_ptr<float>(), sample, first, last);
      const int64_t rows = last - first, columns = keys.last - keys.first;
      f(sample, first, rows, keys.first, columns, memory.narrow(0, 0, rows * columns).view({1, 1, rows, columns}));
    }
}
at::Tensor block_of(const at::Tensor& t, int64_t sample, int64_t first, int64_t count) {
  return t.narrow(0, sample, 1).narrow(2, first, count);
}

void forward_by_blocks(const AttendsTile& tile, const at::Tensor& y, const at::Tensor& lse, const at::Tensor& q,
                       const at::Tensor& k, const at::Tensor& v, const AttentionShape& a) {
  for_each_block(
      tile, a, q,
      [&](int64_t sample, int64_t first, int64_t rows, int64_t key, int64_t columns, const at::Tensor& mask) {
        forward(block_of(y, sample, first, rows), block_of(lse, sample, first, rows), block_of(q, sample, first, rows),
                block_of(k, sample, key, columns), block_of(v, sample, key, columns), a, mask);
      });
}

std::unique_ptr<PreparedKernel> attention_by_blocks(const Call& call, const AttentionCall& c) {
  return make_kernel(call, [c, tile = AttendsTile(*c.attends, c.mask)] {
    const AttentionShape& a = c.shape;
    const bool in_place = c.lse.defined() && c.q.scalar_type() != at::kDouble;
    const at::Tensor statistics = in_place ? c.lse : scratch({a.batch, a.heads, a.queries}, computed_type(c.q), c.q);
    at::Tensor result = computed_result(c.y);
    forward_by_blocks(tile, result, statistics, computed_heads(c.q), computed_heads(c.k), computed_heads(c.v), a);
    if (!result.is_same(c.y)) c.y.copy_(result);
    if (c.lse.defined() && !in_place) c.lse.copy_(statistics);
  });
}

std::unique_ptr<PreparedKernel> attention_backward_by_blocks(const Call& call, const AttentionBackwardCall& c) {
  return make_kernel(call, [c, tile = AttendsTile(*c.attends, c.mask)] {
    const AttentionShape& a = c.shape;
    const at::Tensor g = computed_heads(c.g), q = computed_heads(c.q), k = computed_heads(c.k), v = computed_heads(c.v),
                     y = computed_heads(c.y);
    // LibTorch's kernel adds into the results.
    const auto target = [](const at::Tensor& out, const at::Tensor& like) {
      at::Tensor t = out.defined() ? computed_result(out) : scratch(like.sizes(), computed_type(like), like);
      t.zero_();
      return t;
    };
    at::Tensor dq = target(c.dq, c.q), dk = target(c.dk, c.k), dv = target(c.dv, c.v), statistics = c.lse;
    if (q.scalar_type() == at::kDouble) {
      statistics = scratch({a.batch, a.heads, a.queries}, q.scalar_type(), q);
      forward_by_blocks(tile, scratch_like(q), statistics, q, k, v, a);
    }
    for_each_block(
        tile, a, q,
        [&](int64_t sample, int64_t first, int64_t rows, int64_t key, int64_t columns, const at::Tensor& mask) {
          const auto of_queries = [&](const at::Tensor& t) { return rows_first(block_of(t, sample, first, rows)); };
          const auto of_keys = [&](const at::Tensor& t) { return rows_first(block_of(t, sample, key, columns)); };
          at::native::flash_attention_backward_kernel(
              at::kCPU, of_queries(dq), of_keys(dk), of_keys(dv), of_queries(g), of_queries(q), of_keys(k), of_keys(v),
              of_queries(y), block_of(statistics, sample, first, rows).transpose(1, 2), 0.0, false, mask, a.scale);
        });
    for (const auto& [out, made] : {std::pair{c.dq, dq}, std::pair{c.dk, dk}, std::pair{c.dv, dv}})
      if (out.defined() && !made.is_same(out)) out.copy_(made);
  });
}

}  // namespace

std::unique_ptr<PreparedKernel> bind_scaled_dot_product_attention(const Call& call) {
  const AttentionCall c(call);
  if (c.attends) return attention_by_blocks(call, c);
  if (serves_short_attention(c.shape, c.q, c.mask))
    return make_kernel(call, [c] {
      at::Tensor result = computed_result(c.y);
      short_attention(c.shape, result, c.lse, computed_heads(c.q), computed_heads(c.k), computed_heads(c.v));
      if (!result.is_same(c.y)) c.y.copy_(result);
    });
  return make_kernel(call, [c] {
    const AttentionShape& a = c.shape;
    const bool own_type = c.q.scalar_type() != at::kDouble;
    at::Tensor statistics =
        own_type && c.lse.defined() ? c.lse : scratch({a.batch, a.heads, a.queries}, computed_type(c.q), c.q);
    at::Tensor result = c.y.stride(3) == 1 ? c.y : scratch_like(c.y);
    forward(result, statistics, dense_heads(c.q), dense_heads(c.k), dense_heads(c.v), a, flash_mask(c.mask, c.q, a));
    if (!result.is_same(c.y)) c.y.copy_(result);
    if (c.lse.defined() && !statistics.is_same(c.lse)) c.lse.copy_(statistics);
  });
}

std::unique_ptr<PreparedKernel> bind_scaled_dot_product_attention_backward(const Call& call) {
  const AttentionBackwardCall c(call);
  if (c.attends) return attention_backward_by_blocks(call, c);
  if (serves_short_attention(c.shape, c.q, c.mask))
    return make_kernel(call, [c] {
      const auto target = [](const at::Tensor& out, const at::Tensor& like) {
        return out.defined() ? computed_result(out) : scratch(like.sizes(), computed_type(like), like);
      };
      const AttentionGradients gradients{target(c.dq, c.q), target(c.dk, c.k), target(c.dv, c.v)};
      short_attention_backward(c.shape, gradients, computed_heads(c.g), computed_heads(c.q), computed_heads(c.k),
                               computed_heads(c.v), computed_heads(c.y), c.lse);
      const auto give = [](const at::Tensor& out, const at::Tensor& result) {
        if (out.defined() && !result.is_same(out)) out.copy_(result);
      };
      give(c.dq, gradients.dq);
      give(c.dk, gradients.dk);
      give(c.dv, gradients.dv);
    });
  return make_kernel(call, [c] {
    const AttentionShape& a = c.shape;
    const at::Tensor g = dense_heads(c.g), q = dense_heads(c.q), k = dense_heads(c.k), v = dense_heads(c.v),
                     y = dense_heads(c.y);
    // Each of the three results exists, and LibTorch's kernel adds into it.
    const auto target = [](const at::Tensor& out, const at::Tensor& like) {
      at::Tensor t = out.defined() && out.stride(3) == 1 ? out : scratch_like(like);
      t.zero_();
      return t;
    };
    at::Tensor dq = target(c.dq, c.q), dk = target(c.dk, c.k), dv = target(c.dv, c.v);
    const auto mask = flash_mask(c.mask, c.q, a);
    at::Tensor statistics = c.lse;
    if (q.scalar_type() == at::kDouble) {
      statistics = scratch({a.batch, a.heads, a.queries}, q.scalar_type(), q);
      at::Tensor again = scratch_like(c.q);
      forward(again, statistics, q, k, v, a, mask);
    }
    at::native::flash_attention_backward_kernel(at::kCPU, rows_first(dq), rows_first(dk), rows_first(dv), rows_first(g),
                                                rows_first(q), rows_first(k), rows_first(v), rows_first(y),
                                                statistics.transpose(1, 2), 0.0, a.causal, mask, a.scale);
    if (c.dq.defined() && !dq.is_same(c.dq)) c.dq.copy_(dq);
    if (c.dk.defined() && !dk.is_same(c.dk)) c.dk.copy_(dk);
    if (c.dv.defined() && !dv.is_same(c.dv)) c.dv.copy_(dv);
  });
}

}  // namespace piper::kernels
