// LibTorch's attention for GPUs on the CPU: operators of the same names and signatures, registered for the host's
// memory. They want of their operands what the kernels for GPUs want, and refuse the rest; what those read of memory
// that nobody promises, or make of queries that attend to nothing, is NaN here. Written from LibTorch's sources
// (aten/src/ATen/native/transformers/cuda, version 2.11).
#include <ATen/ATen.h>
#include <torch/library.h>

namespace piper::shim {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Heads in packs of 16 bytes.
void want_packed(const at::Tensor& t, const char* what) {
  const int64_t pack = 16 / t.element_size();
  TORCH_CHECK(t.dim() == 4 && t.stride(3) == 1 && t.size(3) % pack == 0, what, " has heads of ", t.sizes());
  TORCH_CHECK(reinterpret_cast<uintptr_t>(t.data_ptr()) % 16 == 0, what, " does not begin at a pack");
  for (int64_t axis = 0; axis < 3; ++axis)
    TORCH_CHECK(t.size(axis) == 1 || t.stride(axis) % pack == 0, what, " has rows that begin between packs");
}
void want_half(const at::Tensor& t) {
  TORCH_CHECK(t.scalar_type() == at::kBFloat16 || t.scalar_type() == at::kHalf, "not a half type");
}
void want_same_bits() {
  const at::Context& context = at::globalContext();
  TORCH_CHECK(context.deterministicAlgorithms() && !context.deterministicAlgorithmsWarnOnly(),
              "the sums of this backward may come in any order");
  TORCH_CHECK(!context.deterministicFillUninitializedMemory(), "memory that is asked for is filled");
}

// [B, H, S, T], in f64; keys are repeated for the heads that share them. Causal: query i attends to keys 0..i.
at::Tensor scores_of(const at::Tensor& q, const at::Tensor& k, const std::optional<at::Tensor>& bias, bool causal,
                     double scale) {
  at::Tensor scores = at::matmul(q.to(at::kDouble), k.to(at::kDouble).transpose(-1, -2)) * scale;
  if (bias && bias->defined()) scores = scores + bias->to(at::kDouble);
  if (!causal) return scores;
  return scores.masked_fill(at::ones({q.size(2), k.size(2)}, at::kBool).tril().logical_not(), -kInfinity);
}
at::Tensor shared(const at::Tensor& t, int64_t heads) { return t.repeat_interleave(heads / t.size(1), 1); }

struct Forward {
  at::Tensor y, lse;  // of the operands' type; f32
};
// NaN of a query that attends to nothing.
Forward forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const std::optional<at::Tensor>& bias,
                bool causal, double scale) {
  const at::Tensor scores = scores_of(q, shared(k, q.size(1)), bias, causal, scale);
  const at::Tensor y = at::matmul(at::softmax(scores, -1), shared(v, q.size(1)).to(at::kDouble));
  const at::Tensor dead = scores.eq(-kInfinity).all(-1);
  return {y.to(q.scalar_type()), at::logsumexp(scores, -1).masked_fill(dead, NAN).to(at::kFloat)};
}

struct Gradients {
  at::Tensor q, k, v;
};
Gradients backward(const at::Tensor& g, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                   const std::optional<at::Tensor>& bias, const at::Tensor& y, const at::Tensor& lse, bool causal,
                   double scale) {
  const int64_t heads = q.size(1), key_heads = k.size(1);
  const at::Tensor keys = shared(k, heads).to(at::kDouble), values = shared(v, heads).to(at::kDouble),
                   gradient = g.to(at::kDouble);
  const at::Tensor p =
      at::exp(scores_of(q, keys, bias, causal, scale) - lse.narrow(2, 0, q.size(2)).to(at::kDouble).unsqueeze(-1));
  const at::Tensor through = (gradient * y.to(at::kDouble)).sum(-1, true);
  const at::Tensor ds = p * (at::matmul(gradient, values.transpose(-1, -2)) - through) * scale;
  const auto grouped = [&](const at::Tensor& t) {
    return t.unflatten(1, {key_heads, heads / key_heads}).sum(2).to(q.scalar_type());
  };
  return {at::matmul(ds, keys).to(q.scalar_type()), grouped(at::matmul(ds.transpose(-1, -2), q.to(at::kDouble))),
          grouped(at::matmul(p.transpose(-1, -2), gradient))};
}

double scale_of(const at::Tensor& q, std::optional<double> scale) {
  return scale.value_or(1 / std::sqrt(static_cast<double>(q.size(3))));
}

using FlashResult = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor,
                               at::Tensor, at::Tensor>;

void want_flash(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t most_head_dim, bool causal) {
  want_half(q);
  want_packed(q, "q");
  want_packed(k, "k");
  want_packed(v, "v");
  TORCH_CHECK(q.size(3) <= most_head_dim, "heads of ", q.size(3));
  TORCH_CHECK(!causal || q.size(2) == k.size(2), "its causal mask is that of the last query and the last key");
}

FlashResult flash(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double, bool causal, bool,
                  std::optional<double> scale) {
  want_flash(q, k, v, 256, causal);
  const Forward result = forward(q, k, v, std::nullopt, causal, scale_of(q, scale));
  return {result.y, result.lse, {}, {}, q.size(2), k.size(2), {}, {}, {}};
}
std::tuple<at::Tensor, at::Tensor, at::Tensor> flash_backward(const at::Tensor& g, const at::Tensor& q,
                                                              const at::Tensor& k, const at::Tensor& v,
                                                              const at::Tensor& y, const at::Tensor& lse,
                                                              const at::Tensor&, const at::Tensor&, c10::SymInt,
                                                              c10::SymInt, double, bool causal, const at::Tensor&,
                                                              const at::Tensor&, std::optional<double> scale) {
  want_same_bits();
  want_flash(q, k, v, 256, causal);
  TORCH_CHECK(lse.is_contiguous() && lse.size(2) == q.size(2), "statistics of ", lse.sizes());
  const Gradients result = backward(g, q, k, v, std::nullopt, y, lse, causal, scale_of(q, scale));
  return {result.q, result.k, result.v};
}

// A band as a bias: low <= key - query <= high.
at::Tensor window_of(const at::Tensor& q, const at::Tensor& k, std::optional<c10::SymInt> left,
                     std::optional<c10::SymInt> right) {
  TORCH_CHECK(left && right && *left >= 0 && *right >= 0 && q.size(1) == k.size(1), "a window of no band");
  const at::Tensor away = at::arange(k.size(1)).unsqueeze(0) - at::arange(q.size(1)).unsqueeze(1);
  const at::Tensor attends = away.ge(-left->expect_int()).logical_and(away.le(right->expect_int()));
  return at::zeros(attends.sizes(), at::kDouble).masked_fill(attends.logical_not(), -kInfinity);
}
at::Tensor heads_first(const at::Tensor& t) { return t.transpose(1, 2); }

// For rows of all heads, [B, S, H, D].
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> flash_of_window(
    const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const std::optional<at::Tensor>& of_queries,
    const std::optional<at::Tensor>& of_keys, c10::SymInt queries, c10::SymInt keys, double, bool causal, bool,
    std::optional<double> scale, std::optional<c10::SymInt> left, std::optional<c10::SymInt> right,
    const std::optional<at::Tensor>&, const std::optional<at::Tensor>&, const std::optional<at::Tensor>&,
    std::optional<int64_t>) {
  want_flash(heads_first(q), heads_first(k), heads_first(v), 256, causal);
  TORCH_CHECK(!causal && !of_queries && !of_keys && queries == q.size(1) && keys == k.size(1), "not modelled");
  const Forward result =
      forward(heads_first(q), heads_first(k), heads_first(v), window_of(q, k, left, right), false, scale_of(q, scale));
  return {heads_first(result.y), result.lse, {}, {}, {}};
}
std::tuple<at::Tensor, at::Tensor, at::Tensor> flash_of_window_backward(
    const at::Tensor& g, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& y,
    const at::Tensor& lse, const at::Tensor&, const at::Tensor&, c10::SymInt, c10::SymInt, double, bool causal,
    const at::Tensor&, const at::Tensor&, std::optional<double> scale, std::optional<c10::SymInt> left,
    std::optional<c10::SymInt> right) {
  want_same_bits();
  want_flash(heads_first(q), heads_first(k), heads_first(v), 256, causal);
  TORCH_CHECK(lse.is_contiguous() && lse.size(2) == q.size(1), "statistics of ", lse.sizes());
  const Gradients result = backward(heads_first(g), heads_first(q), heads_first(k), heads_first(v),
                                    window_of(q, k, left, right), heads_first(y), lse, causal, scale_of(q, scale));
  return {heads_first(result.q), heads_first(result.k), heads_first(result.v)};
}

FlashResult cudnn(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const std::optional<at::Tensor>& bias,
                  bool statistics, double, bool causal, bool, std::optional<double> scale) {
  want_flash(q, k, v, 128, causal);
  TORCH_CHECK(!bias && q.size(1) == k.size(1), "cuDNN: not modelled");
  const Forward result = forward(q, k, v, bias, causal, scale_of(q, scale));
  return {result.y, statistics ? result.lse.unsqueeze(-1) : at::Tensor(), {}, {}, q.size(2), k.size(2), {}, {}, {}};
}

void want_efficient(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const std::optional<at::Tensor>& bias) {
  if (q.scalar_type() != at::kFloat) want_half(q);
  want_packed(q, "q");
  want_packed(k, "k");
  want_packed(v, "v");
  TORCH_CHECK(q.size(1) == k.size(1) && q.size(1) == v.size(1), "as many heads of keys as of queries");
  if (!bias || !bias->defined()) return;
  const int64_t pack = 16 / q.element_size();
  TORCH_CHECK(bias->scalar_type() == q.scalar_type(), "a bias of another type");
  TORCH_CHECK(bias->sizes() == at::IntArrayRef({q.size(0), q.size(1), q.size(2), k.size(2)}), "a bias of ",
              bias->sizes());
  TORCH_CHECK(bias->stride(3) == 1 && bias->stride(2) % pack == 0 && bias->stride(1) % pack == 0 &&
                  reinterpret_cast<uintptr_t>(bias->data_ptr()) % 16 == 0,
              "a bias whose rows begin between packs");
}
constexpr int64_t kRows = 32;  // of a block of queries

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> efficient(const at::Tensor& q, const at::Tensor& k,
                                                                     const at::Tensor& v,
                                                                     const std::optional<at::Tensor>& bias,
                                                                     bool statistics, double, bool causal,
                                                                     std::optional<double> scale) {
  want_efficient(q, k, v, bias);
  const Forward result = forward(q, k, v, bias, causal, scale_of(q, scale));
  at::Tensor lse =
      at::full({q.size(0), q.size(1), statistics ? (q.size(2) + kRows - 1) / kRows * kRows : 0}, kInfinity, at::kFloat);
  if (statistics) lse.narrow(2, 0, q.size(2)).copy_(result.lse);
  return {result.y, lse, {}, {}};
}
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> efficient_backward(
    const at::Tensor& g, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias,
    const at::Tensor& y, const at::Tensor& lse, const at::Tensor&, const at::Tensor&, double, std::array<bool, 4>,
    bool causal, std::optional<double> scale) {
  want_same_bits();
  want_efficient(q, k, v, bias);
  TORCH_CHECK(lse.stride(2) == 1 && lse.size(2) % kRows == 0 && lse.size(2) >= q.size(2), "statistics of ",
              lse.sizes());
  // It is given no distance of the output's rows.
  const at::Tensor output = y.transpose(1, 2).is_contiguous() ? y : at::full_like(y, NAN);
  const Gradients result = backward(g, q, k, v, bias, output, lse, causal, scale_of(q, scale));
  return {result.q, result.k, result.v, {}};
}

TORCH_LIBRARY_IMPL(aten, CPU, library) {
  library.impl("_scaled_dot_product_flash_attention", &flash);
  library.impl("_scaled_dot_product_flash_attention_backward", &flash_backward);
  library.impl("_flash_attention_forward", &flash_of_window);
  library.impl("_flash_attention_backward", &flash_of_window_backward);
  library.impl("_scaled_dot_product_cudnn_attention", &cudnn);
  library.impl("_scaled_dot_product_efficient_attention", &efficient);
  library.impl("_scaled_dot_product_efficient_attention_backward", &efficient_backward);
}

}  // namespace
}  // namespace piper::shim
