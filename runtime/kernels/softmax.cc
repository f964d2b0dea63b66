// Softmax, its logarithm and their gradients with LibTorch's operators.
#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>

#include "runtime/kernels/binding.h"

namespace piper::kernels {
namespace {

int64_t check_softmax(const Call& call) {
  for (size_t i = 0; i < call.num_inputs(); ++i) {
    want_shape(call.in(i), call.out(0).sizes(), "an input");
    want_same_dtype(call.in(i), call.out(0));
  }
  return want_axis(call.out(0), call.attr_int("dim"));
}

}  // namespace

std::unique_ptr<PreparedKernel> bind_softmax(const Call& call) {
  return make_kernel(call, [y = call.out(0), x = call.in(0), dim = check_softmax(call)]() mutable {
    produce(y, false, [&](at::Tensor& out) { at::_softmax_out(out, dense(x), dim, false); });
  });
}
std::unique_ptr<PreparedKernel> bind_log_softmax(const Call& call) {
  return make_kernel(call, [y = call.out(0), x = call.in(0), dim = check_softmax(call)]() mutable {
    produce(y, false, [&](at::Tensor& out) { at::_log_softmax_out(out, dense(x), dim, false); });
  });
}
std::unique_ptr<PreparedKernel> bind_softmax_backward(const Call& call) {
  return make_kernel(call, [dx = call.out(0), g = call.in(0), y = call.in(1), dim = check_softmax(call)]() mutable {
    produce(dx, false,
            [&](at::Tensor& out) { at::_softmax_backward_data_out(out, dense(g), dense(y), dim, y.scalar_type()); });
  });
}
std::unique_ptr<PreparedKernel> bind_log_softmax_backward(const Call& call) {
  return make_kernel(call, [dx = call.out(0), g = call.in(0), y = call.in(1), dim = check_softmax(call)]() mutable {
    produce(dx, false, [&](at::Tensor& out) {
      at::_log_softmax_backward_data_out(out, dense(g), dense(y), dim, y.scalar_type());
    });
  });
}

}  // namespace piper::kernels
