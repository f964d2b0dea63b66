// What a sink, a score of each query that has no value, does to the result of attention and to its statistics. A query
// that attends to nothing has a result of 0 and statistics of either infinity: the sink gets all of its softmax.
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>

#include "runtime/kernels/binding.h"

namespace piper::kernels::library {
namespace {

void check_sink(const at::Tensor& y, const at::Tensor& lse, const at::Tensor& sink) {
  if (y.dim() != 4) refuse("attention's result has ", y.dim(), " axes, 4 are expected");
  want_shape(lse, y.sizes().slice(0, 3), "the statistics");
  want_shape(sink, {y.size(0), y.size(1), y.size(2), 1}, "the sink");
  want_dtype(lse, at::kFloat, "the statistics");
  want_same_dtype(y, sink);
}

}  // namespace

// y = sigmoid(lse - sink) x, and log(exp(lse) + exp(sink)).
std::unique_ptr<PreparedKernel> bind_attention_sink(const Call& call) {
  const at::Tensor x = call.in(0), lse = call.in(1), sink = call.in(2);
  check_sink(x, lse, sink);
  want_shape(call.out(0), x.sizes(), "the output");
  want_same_dtype(call.out(0), x);
  return make_kernel(call, [x, lse, sink = sink.squeeze(3), y = call.out(0), with_sink = call.out(1)]() mutable {
    at::Tensor share = scratch(lse.sizes(), computed_type(x), lse);
    at::sub_out(share, lse, sink);
    share.sigmoid_();
    if (with_sink.defined()) at::logaddexp_out(with_sink, lse, sink);
    at::mul_out(y, x, share.unsqueeze(3));
  });
}

// dsink = -exp(sink - lse) sum(g y), of y and lse with the sink.
std::unique_ptr<PreparedKernel> bind_attention_sink_backward(const Call& call) {
  const at::Tensor g = call.in(0), y = call.in(1), lse = call.in(2), sink = call.in(3);
  check_sink(y, lse, sink);
  want_shape(g, y.sizes(), "the gradient");
  want_same_dtype(g, y);
  want_shape(call.out(0), sink.sizes(), "the output");
  return make_kernel(call, [g, y, lse, sink, dsink = call.out(0)]() mutable {
    at::Tensor product = scratch_like(y), taken = scratch(sink.sizes(), computed_type(y), y),
               share = scratch(lse.sizes(), computed_type(y), y);
    at::mul_out(product, g, y);
    at::sum_out(taken, product, {3}, true, taken.scalar_type());
    at::sub_out(share, sink.squeeze(3), lse);
    taken.mul_(share.exp_().unsqueeze(3)).neg_();
    dsink.copy_(taken);
  });
}

}  // namespace piper::kernels::library
