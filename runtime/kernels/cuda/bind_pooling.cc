// The binder of max pooling's gradient.
#include "runtime/kernels/cuda/bound_call.h"
#include "runtime/kernels/cuda/pooling.h"

namespace piper::kernels::cuda {

MadeKernel bind_max_pool2d_backward(const BoundCall& call) {
  const View &g = call.in(0), &indices = call.in(1), &dx = call.out(0);
  MaxPoolBackward b;
  b.window = read_pool_window(call, true);
  want_floating(dx);
  want_shape(dx, call.attr_ints("shape"), "the output");
  want_shape(g, b.window.pooled(dx.shape), "the gradient");
  want_same_dtype(g, dx);
  want_shape(indices, g.shape, "the indices");
  want_dtype(indices, DType::kI64, "the indices");
  b.type = dx.dtype;
  b.count = dx.elements();
  b.height = dx.extent(dx.rank() - 2);
  b.width = dx.extent(dx.rank() - 1);
  b.pooled_height = g.extent(g.rank() - 2);
  b.pooled_width = g.extent(g.rank() - 1);
  b.dx = dx.data;
  b.g = g.data;
  b.indices = reinterpret_cast<const int64_t*>(indices.data);
  b.dx_layout = dx.layout();
  b.g_layout = g.layout();
  b.indices_layout = indices.layout();
  return make_kernel([b](cudaStream_t stream) { launch_max_pool_backward(b, stream); });
}

}  // namespace piper::kernels::cuda
