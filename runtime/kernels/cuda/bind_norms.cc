// The binders of layer_norm, rms_norm and their gradients.
#include "runtime/kernels/cuda/bound_call.h"
#include "runtime/kernels/cuda/norms.h"

namespace piper::kernels::cuda {
namespace {

// What all of them ask of x, and the extents.
Norm norm_of(const BoundCall& call, const View& x) {
  want_floating(x);
  const int64_t axes = call.attr_int("axes");
  if (axes < 1 || axes > x.rank()) refuse("attribute `axes` is ", axes, " for rank ", x.rank());
  Norm norm;
  norm.centred = call.name().starts_with("layer_norm");
  norm.type = x.dtype;
  norm.eps = call.attr_double("eps");
  norm.rows = norm.columns = 1;
  for (int64_t axis = 0; axis < x.rank(); ++axis) (axis < x.rank() - axes ? norm.rows : norm.columns) *= x.extent(axis);
  return norm;
}
Matrix matrix(const BoundCall& call, const View& view) {
  const int64_t rows = view.rank() - call.attr_int("axes");
  return {view.data, view.layout(0, rows), view.layout(rows, view.rank())};
}
Matrix like_x(const BoundCall& call, const View& view, const View& x, const char* what) {
  want_shape(view, x.shape, what);
  want_same_dtype(view, x);
  return matrix(call, view);
}
// One number a column, absent or not.
Matrix of_columns(const View& view, const View& x, const Norm& norm, const char* what) {
  if (!view.defined) return {};
  want_same_dtype(view, x);
  want_count(view, norm.columns, what);
  return {view.data, {}, view.layout()};
}
float* statistic(const View& view, const Norm& norm) {
  if (!view.defined) return nullptr;
  want_dtype(view, DType::kF32, "a statistic");
  if (view.elements() != norm.rows || !view.contiguous())
    refuse("a statistic of ", text_of(view.shape), " for ", norm.rows, " rows");
  return reinterpret_cast<float*>(view.data);
}
// The forward's statistics among the inputs from 2 on; returns how many there are.
size_t take_statistics(const BoundCall& call, Norm& norm) {
  if (norm.centred) norm.mean = statistic(call.in(2), norm);
  norm.rstd = statistic(call.in(norm.centred ? 3 : 2), norm);
  return norm.centred ? 2 : 1;
}

}  // namespace

MadeKernel bind_norm(const BoundCall& call) {
  const View& x = call.in(0);
  Norm norm = norm_of(call, x);
  norm.x = matrix(call, x);
  norm.y = like_x(call, call.out(0), x, "the output");
  norm.weight = of_columns(call.in(1), x, norm, "the weight");
  if (norm.centred) norm.bias = of_columns(call.in(2), x, norm, "the bias");
  if (norm.centred) norm.mean = statistic(call.out(1), norm);
  norm.rstd = statistic(call.out(norm.centred ? 2 : 1), norm);
  return make_kernel([norm](cudaStream_t stream) { launch_norm(norm, stream); });
}

MadeKernel bind_norm_backward_input(const BoundCall& call) {
  const View& x = call.in(1);
  Norm norm = norm_of(call, x);
  norm.x = matrix(call, x);
  norm.g = like_x(call, call.in(0), x, "the gradient");
  norm.y = like_x(call, call.out(0), x, "the output");
  const size_t statistics = take_statistics(call, norm);
  norm.weight = of_columns(call.in(2 + statistics), x, norm, "the weight");
  return make_kernel([norm](cudaStream_t stream) { launch_norm_backward_input(norm, stream); });
}

MadeKernel bind_norm_backward_weight(const BoundCall& call) {
  const View& x = call.in(1);
  NormWeights weights;
  Norm& norm = weights.norm;
  norm = norm_of(call, x);
  norm.x = matrix(call, x);
  norm.g = like_x(call, call.in(0), x, "the gradient");
  take_statistics(call, norm);
  weights.dw = of_columns(call.out(0), x, norm, "output 0");
  if (norm.centred) weights.db = of_columns(call.out(1), x, norm, "output 1");
  weights.accumulate = call.accumulate();
  if (const int64_t parts = norm_weight_parts(norm); parts > 1)
    weights.parts = call.reserve<std::byte>(2 * parts * norm.columns * dtype_bytes(computed_as(norm.type)));
  return make_kernel([weights](cudaStream_t stream) { launch_norm_backward_weight(weights, stream); });
}

}  // namespace piper::kernels::cuda
