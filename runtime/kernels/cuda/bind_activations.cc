// The binders of silu and gelu and their gradients.
#include "runtime/kernels/cuda/activations.h"
#include "runtime/kernels/cuda/bound_call.h"

namespace piper::kernels::cuda {
namespace {

MadeKernel bind(const BoundCall& call, Activation activation) {
  const View& y = call.out(0);
  want_floating(y);
  for (size_t i = 0; i < call.num_inputs(); ++i) {
    want_shape(call.in(i), y.shape, "an input");
    want_same_dtype(call.in(i), y);
  }
  const auto operand = [](const View& view) { return ActivationOperand{view.data, view.layout()}; };
  const bool backward = call.num_inputs() == 2;
  ActivationCall a{activation, y.dtype, y.elements(), operand(call.in(backward ? 1 : 0)), operand(y), {}};
  if (backward) a.g = operand(call.in(0));
  return make_kernel([a](cudaStream_t stream) { launch_activation(a, stream); });
}
Activation gelu_of(const BoundCall& call) {
  const std::string text = call.attr_string("approximate");
  if (text != "none" && text != "tanh") refuse("attribute `approximate` is `", text, "`, not none or tanh");
  return text == "tanh" ? Activation::kGeluTanh : Activation::kGelu;
}

}  // namespace

MadeKernel bind_silu(const BoundCall& call) { return bind(call, Activation::kSilu); }
MadeKernel bind_silu_backward(const BoundCall& call) { return bind(call, Activation::kSilu); }
MadeKernel bind_gelu(const BoundCall& call) { return bind(call, gelu_of(call)); }
MadeKernel bind_gelu_backward(const BoundCall& call) { return bind(call, gelu_of(call)); }

}  // namespace piper::kernels::cuda
