// The binders of softmax, log_softmax and their gradients.
#include "runtime/kernels/cuda/bound_call.h"
#include "runtime/kernels/cuda/softmax.h"

namespace piper::kernels::cuda {
namespace {

Softmax softmax_of(const BoundCall& call) {
  const View& y = call.out(0);
  want_floating(y);
  for (size_t i = 0; i < call.num_inputs(); ++i) {
    want_shape(call.in(i), y.shape, "an input");
    want_same_dtype(call.in(i), y);
  }
  const auto axis = want_axis(y, call.attr_int("dim"));
  const auto operand = [axis](View view) -> SoftmaxOperand {
    if (!view.defined) return {};
    if (view.rank() == 0) return {view.data, {}, {}};
    const Layout column = view.layout(axis, axis + 1);
    view.shape.erase(view.shape.begin() + axis);
    view.strides.erase(view.strides.begin() + axis);
    return {view.data, view.layout(), column};
  };
  const bool backward = call.num_inputs() == 2;
  Softmax s;
  s.logarithm = call.name().starts_with("log_");
  s.type = y.dtype;
  s.columns = y.rank() == 0 ? 1 : y.extent(axis);
  s.rows = s.columns == 0 ? 0 : y.elements() / s.columns;
  s.x = operand(call.in(backward ? 1 : 0));
  if (backward) s.g = operand(call.in(0));
  s.y = operand(y);
  return s;
}

}  // namespace

MadeKernel bind_softmax(const BoundCall& call) {
  return make_kernel([s = softmax_of(call)](cudaStream_t stream) { launch_softmax(s, stream); });
}
MadeKernel bind_softmax_backward(const BoundCall& call) {
  return make_kernel([s = softmax_of(call)](cudaStream_t stream) { launch_softmax_backward(s, stream); });
}

}  // namespace piper::kernels::cuda
