// GELU both ways through the kernel underlying the operator: gelu_out with the error function goes through
// another library and allocates. The tanh form has an own kernel. Compiled with the definitions that
// DispatchStub.h wants; the operator serves what that does not.
#include <ATen/TensorIterator.h>
#include <ATen/native/Activation.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>

#include "runtime/kernels/binding.h"
#include "runtime/kernels/fast_pointwise.h"

namespace piper::kernels {
namespace {

at::native::GeluType gelu_type(const Call& call) {
  const std::string text = call.attr_string("approximate");
  if (text != "none" && text != "tanh") refuse("attribute `approximate` is `", text, "`, not none or tanh");
  return at::native::get_gelutype_enum(text);
}

}  // namespace

std::unique_ptr<PreparedKernel> bind_gelu(const Call& call) {
  want_shape(call.out(0), call.in(0).sizes(), "the output");
  want_same_dtype(call.out(0), call.in(0));
  const auto type = gelu_type(call);
  if (type == at::native::GeluType::Tanh && serves_fast_pointwise({call.out(0), call.in(0)}))
    return make_kernel(call, [y = call.out(0), x = call.in(0)] { fast_gelu_tanh(y, x); });
  return make_kernel(call, [y = call.out(0), x = call.in(0), type]() mutable {
    auto iterator = at::TensorIterator::unary_op(y, x);
    at::native::GeluKernel(at::kCPU, iterator, type);
  });
}

std::unique_ptr<PreparedKernel> bind_gelu_backward(const Call& call) {
  for (const at::Tensor& t : {call.in(0), call.in(1)}) {
    want_shape(t, call.out(0).sizes(), "an input");
    want_same_dtype(t, call.out(0));
  }
  const auto type = gelu_type(call);
  if (type == at::native::GeluType::Tanh && serves_fast_pointwise({call.out(0), call.in(0), call.in(1)}))
    return make_kernel(call, [dx = call.out(0), g = call.in(0), x = call.in(1)] { fast_gelu_tanh_backward(dx, g, x); });
  return make_kernel(call, [dx = call.out(0), g = call.in(0), x = call.in(1), type]() mutable {
    auto iterator = at::TensorIterator::borrowing_binary_op(dx, g, x);
    at::native::GeluBackwardKernel(at::kCPU, iterator, type);
  });
}

}  // namespace piper::kernels
