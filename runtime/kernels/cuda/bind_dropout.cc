// The binder of dropout.
#include "runtime/kernels/cuda/bound_call.h"
#include "runtime/kernels/cuda/counter_dropout.h"
#include "runtime/kernels/dropout.h"

namespace piper::kernels::cuda {

MadeKernel bind_dropout(const BoundCall& call) {
  const View &x = call.in(0), &y = call.out(0);
  const double p = call.attr_double("p");
  if (!(p >= 0 && p <= 1)) refuse("attribute `p` is ", p);
  want_floating(x);
  want_shape(y, x.shape, "the output");
  want_same_dtype(y, x);
  Dropout d;
  d.type = x.dtype;
  d.outer = call.attr_int("outer");
  d.batch = call.attr_int("batch");
  d.inner = call.attr_int("inner");
  if (d.outer < 0 || d.batch < 0 || d.inner < 0 || d.outer * d.batch * d.inner != x.elements())
    refuse("attributes of ", d.outer, " x ", d.batch, " x ", d.inner, " elements for ", x.elements());
  d.x = x.data;
  d.y = y.data;
  d.x_layout = x.layout();
  d.y_layout = y.layout();
  d.key = static_cast<uint64_t>(call.attr_int("key"));
  d.threshold = dropout_threshold(p);
  d.scale = p < 1 ? 1 / (1 - p) : 0;
  const View& seed_and_step = call.in(1);
  want_dtype(seed_and_step, DType::kI64, "input 1");
  if (seed_and_step.elements() != 2 || !seed_and_step.contiguous()) refuse("input 1 does not hold seed and step");
  d.seed_and_step = reinterpret_cast<const int64_t*>(seed_and_step.data);
  d.first_sample = scalar_of<const int64_t>(call.in(2), DType::kI64, "input 2");
  if (const View& place = call.in(3); place.defined) {
    d.part.places = call.attr_int("places");
    d.part.row = call.attr_int("row");
    d.place = scalar_of<const int64_t>(place, DType::kI64, "the place");
    if (d.part.places < 1 || d.part.row < 1 || d.outer * d.inner % d.part.row != 0)
      refuse("attributes of ", d.part.places, " places with rows of ", d.part.row, " of ", d.outer * d.inner,
             " elements");
  }
  return make_kernel([d](cudaStream_t stream) { launch_dropout(d, stream); });
}

}  // namespace piper::kernels::cuda
