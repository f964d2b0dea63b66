// The binders of attention and its gradient.
#include <algorithm>

#include "runtime/kernels/cuda/attention.h"
#include "runtime/kernels/cuda/bound_call.h"
#include "schemas/forms/attends.h"

namespace piper::kernels::cuda {
namespace {

Heads heads_of(const View& view) {
  if (!view.defined) return {};
  return {view.data, view.stride(0), view.stride(1), view.stride(2), view.stride(3)};
}
Heads like(const View& view, const View& other, const char* what) {
  if (!view.defined) return {};
  want_shape(view, other.shape, what);
  want_same_dtype(view, other);
  return heads_of(view);
}
// What `attends` says, and the vectors that it reads.
void take_attends(Attention& a, const std::string& text, const View& vectors) {
  int64_t number = 0, places = 0;
  if (vectors.defined) {
    want_dtype(vectors, DType::kI64, "the vectors that `attends` reads");
    if (vectors.rank() != 4 || (vectors.extent(0) != 1 && vectors.extent(0) != a.batch) || vectors.extent(1) != 1)
      refuse("vectors of shape ", text_of(vectors.shape));
    number = vectors.extent(2);
    places = vectors.extent(3);
    a.attends.vectors = reinterpret_cast<const int64_t*>(vectors.data);
    a.attends.batch = vectors.extent(0) == 1 ? 0 : vectors.stride(0);
    a.attends.vector = vectors.stride(2);
    a.attends.place = vectors.stride(3);
  }
  const Result<form::Attends> parsed = form::parse_attends(text, a.queries, a.keys, number, places);
  if (!parsed.ok()) refuse("`attends`: ", parsed.error().message);
  const form::Band band = form::band_of(*parsed);
  a.low = band.low;
  a.high = band.high;
  if (form::is_band(*parsed)) return;
  const std::vector<form::Step> steps = *form::program_of(form::within_band(*parsed));
  std::copy(steps.begin(), steps.end(), a.attends.steps);
  a.attends.count = static_cast<int>(steps.size());
}
Attention attention_of(const BoundCall& call, const View& q, const View& k, const View& v, const View& mask) {
  if (q.rank() != 4 || k.rank() != 4 || v.rank() != 4) refuse("q, k and v are not of rank 4");
  want_floating(q);
  Attention a;
  a.type = q.dtype;
  a.batch = q.extent(0);
  a.heads = q.extent(1);
  a.key_heads = k.extent(1);
  a.queries = q.extent(2);
  a.keys = k.extent(2);
  a.head_dim = q.extent(3);
  const bool causal = call.attr_bool("is_causal");
  a.low = -a.queries;
  a.high = causal ? 0 : a.keys;
  a.scale = call.attr_double("scale");
  if (a.key_heads < 1 || a.heads % a.key_heads != 0) refuse(a.heads, " heads over ", a.key_heads, " key heads");
  if (a.head_dim * dtype_bytes(computed_as(a.type)) > kMostHeadBytes) refuse("heads of ", a.head_dim, " elements");
  const Shape of_keys = {a.batch, a.key_heads, a.keys, a.head_dim};
  want_shape(k, of_keys, "k");
  want_shape(v, of_keys, "v");
  want_same_dtype(q, k);
  want_same_dtype(q, v);
  a.q = heads_of(q);
  a.k = heads_of(k);
  a.v = heads_of(v);
  if (const std::string text = call.attr_string_or_empty("attends"); !text.empty()) {
    if (causal) refuse("`attends` together with `is_causal`");
    take_attends(a, text, mask);
    return a;
  }
  if (!mask.defined) return a;
  a.mask_is_bool = mask.dtype == DType::kBool;
  if (!a.mask_is_bool) want_same_dtype(mask, q);
  const View scores = mask.expanded({a.batch, a.heads, a.queries, a.keys});
  a.mask = scores.data;
  a.mask_batch = scores.stride(0);
  a.mask_head = scores.stride(1);
  a.mask_query = scores.stride(2);
  a.mask_key = scores.stride(3);
  return a;
}
void take_lse(Attention& a, const View& lse, const char* what) {
  if (!lse.defined) return;
  want_dtype(lse, DType::kF32, what);
  want_shape(lse, {a.batch, a.heads, a.queries}, what);
  a.lse = reinterpret_cast<float*>(lse.data);
  a.lse_batch = lse.stride(0);
  a.lse_head = lse.stride(1);
  a.lse_row = lse.stride(2);
}

}  // namespace

MadeKernel bind_attention(const BoundCall& call) {
  const View& q = call.in(0);
  Attention a = attention_of(call, q, call.in(1), call.in(2), call.in(3));
  a.y = like(call.out(0), q, "the output");
  take_lse(a, call.out(1), "output 1");
  return make_kernel([a](cudaStream_t stream) { launch_attention(a, stream); });
}

MadeKernel bind_attention_backward(const BoundCall& call) {
  constexpr int64_t kMostExactRows = 8192;  // in the memory that a call may reserve
  const View &q = call.in(1), &k = call.in(2), &v = call.in(3);
  Attention a = attention_of(call, q, k, v, call.in(6));
  a.g = like(call.in(0), q, "the gradient");
  a.y = like(call.in(4), q, "the forward's output");
  take_lse(a, call.in(5), "the row statistics");
  a.dq = like(call.out(0), q, "output 0");
  a.dk = like(call.out(1), k, "output 1");
  a.dv = like(call.out(2), v, "output 2");
  if (a.type == DType::kF64) {
    const int64_t rows = a.batch * a.heads * a.queries;
    if (rows > kMostExactRows)
      refuse("an attention in f64 of ", rows, " rows, of which ", kMostExactRows, " are served");
    a.exact_lse = call.reserve<double>(rows);
  }
  return make_kernel([a](cudaStream_t stream) { launch_attention_backward(a, stream); });
}

}  // namespace piper::kernels::cuda
