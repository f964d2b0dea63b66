// The binders of fill, copy, cast and add_into.
#include "runtime/kernels/cuda/bound_call.h"
#include "runtime/kernels/cuda/copies.h"

namespace piper::kernels::cuda {
namespace {

StridedElements strided(const View& view) { return {view.data, view.dtype, view.layout()}; }

}  // namespace

MadeKernel bind_copy(const BoundCall& call) {
  const View &to = call.out(0), &from = call.in(0);
  want_shape(to, from.shape, "the output");
  if (call.name() != "cast") want_same_dtype(to, from);
  const CopyMode mode = call.accumulate() || call.name() == "add_into" ? CopyMode::kAdd : CopyMode::kCopy;
  if (call.name() == "cast" && mode == CopyMode::kAdd)
    for (const View& view : {to, from})
      if (!is_floating(view.dtype)) refuse("a sum of element type ", dtype_name(view.dtype));
  return make_kernel([to = strided(to), from = strided(from), count = to.elements(), mode](cudaStream_t stream) {
    launch_copy(to, from, count, mode, stream);
  });
}

MadeKernel bind_fill(const BoundCall& call) {
  return make_kernel([to = strided(call.out(0)), count = call.out(0).elements(), value = call.attr_double("value")](
                         cudaStream_t stream) { launch_fill(to, count, value, stream); });
}

}  // namespace piper::kernels::cuda
