// The binder of rotary and rotary_backward.
#include "runtime/kernels/cuda/bound_call.h"
#include "runtime/kernels/cuda/rotary.h"

namespace piper::kernels::cuda {
namespace {

TurnedRows rows_of(const View& view) {
  return {view.data, view.layout(0, view.rank() - 1), view.stride(view.rank() - 1)};
}

}  // namespace

MadeKernel bind_rotary(const BoundCall& call) {
  const View &y = call.out(0), &x = call.in(0);
  want_floating(x);
  want_shape(x, y.shape, "input 0");
  want_same_dtype(x, y);
  if (y.rank() < 2 || y.extent(y.rank() - 1) % 2 != 0)
    refuse("input 0 of ", text_of(y.shape), " has no halves of a last axis");
  Rotary r;
  r.backward = call.name() == "rotary_backward";
  r.type = x.dtype;
  r.table_type = call.in(1).dtype;
  const int64_t width = y.extent(y.rank() - 1);
  r.half = width / 2;
  r.rows = width == 0 ? 0 : y.elements() / width;
  const auto table = [&](size_t i) {
    const View& view = call.in(i);
    if (view.dtype != computed_as(x.dtype)) want_same_dtype(view, x);
    want_same_dtype(view, call.in(1));
    if (view.rank() == 0 || view.extent(view.rank() - 1) != width)
      refuse("input ", i, " of ", text_of(view.shape), " for rows of ", width);
    return rows_of(view.expanded(y.shape));
  };
  r.x = rows_of(x);
  r.y = rows_of(y);
  r.cosine = table(1);
  r.sine = table(2);
  return make_kernel([r](cudaStream_t stream) { launch_rotary(r, stream); });
}

}  // namespace piper::kernels::cuda
