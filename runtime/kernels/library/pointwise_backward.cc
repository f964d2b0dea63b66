// Gradients of element-wise kernels, with LibTorch's own formulas.
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/leaky_relu_backward.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sigmoid_backward.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/softplus_backward.h>
#include <ATen/ops/tanh_backward.h>
#include <ATen/ops/threshold_backward.h>

#include "runtime/kernels/binding.h"

namespace piper::kernels::library {
namespace {

void check_backward(const Call& call) {
  for (const at::Tensor& t : {call.in(0), call.in(1)}) {
    want_shape(t, call.out(0).sizes(), "an input");
    want_same_dtype(t, call.out(0));
  }
}

}  // namespace

#define PIPER_BACKWARD(name, ...)                                                                                \
  std::unique_ptr<PreparedKernel> bind_##name(const Call& call) {                                                \
    check_backward(call);                                                                                        \
    return make_kernel(call, [dx = call.out(0), g = call.in(0), saved = call.in(1)]() mutable { __VA_ARGS__; }); \
  }
PIPER_BACKWARD(tanh_backward, at::tanh_backward_out(dx, g, saved))
PIPER_BACKWARD(sigmoid_backward, at::sigmoid_backward_out(dx, g, saved))
PIPER_BACKWARD(relu_backward, at::threshold_backward_out(dx, g, saved, 0))
PIPER_BACKWARD(silu_backward, at::silu_backward_out(dx, g, saved))
PIPER_BACKWARD(softplus_backward, at::softplus_backward_out(dx, g, saved, 1, 20))
// d log sigmoid(x) / dx = sigmoid(-x); LibTorch's own kernel wants a buffer of the forward.
PIPER_BACKWARD(log_sigmoid_backward, at::neg_out(dx, saved); dx.sigmoid_(); dx.mul_(g))
#undef PIPER_BACKWARD

std::unique_ptr<PreparedKernel> bind_leaky_relu_backward(const Call& call) {
  check_backward(call);
  return make_kernel(call, [dx = call.out(0), g = call.in(0), x = call.in(1),
                            slope = at::Scalar(call.attr_double("slope"))]() mutable {
    at::leaky_relu_backward_out(dx, g, x, slope, false);
  });
}

}  // namespace piper::kernels::library
