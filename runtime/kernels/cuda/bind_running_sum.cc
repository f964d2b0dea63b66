// The binder of running sums.
#include "runtime/kernels/cuda/bound_call.h"
#include "runtime/kernels/cuda/running_sum.h"

namespace piper::kernels::cuda {

MadeKernel bind_cumsum(const BoundCall& call) {
  View x = call.in(0), y = call.out(0);
  want_shape(y, x.shape, "the output");
  want_same_dtype(y, x);
  const int64_t axis = want_axis(x, call.attr_int("dim"));
  RunningSum s;
  s.type = x.dtype;
  s.x = x.data;
  s.y = y.data;
  s.steps = x.rank() == 0 ? 1 : x.extent(axis);
  s.lines = s.steps == 0 ? 0 : x.elements() / s.steps;
  const auto take = [axis](View& view, int64_t& step, Layout& line) {
    if (view.rank() == 0) return;
    step = view.stride(axis);
    view.shape.erase(view.shape.begin() + axis);
    view.strides.erase(view.strides.begin() + axis);
    line = view.layout();
  };
  take(x, s.x_step, s.x_line);
  take(y, s.y_step, s.y_line);
  return make_kernel([s](cudaStream_t stream) { launch_running_sum(s, stream); });
}

}  // namespace piper::kernels::cuda
