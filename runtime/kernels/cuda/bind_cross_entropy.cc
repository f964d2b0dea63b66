// The binders of the cross entropy's sum, gradient and count, and of those of logarithms of probabilities.
#include <limits>

#include "runtime/kernels/cuda/bound_call.h"
#include "runtime/kernels/cuda/copies.h"
#include "runtime/kernels/cuda/cross_entropy.h"

namespace piper::kernels::cuda {
namespace {

// Scores [N, C, d..] with target [N, d..]: rows are the target's axes.
void split_rows(const View& scores, Layout& row, Layout& of_class) {
  View rows = scores;
  rows.shape.erase(rows.shape.begin() + 1);
  rows.strides.erase(rows.strides.begin() + 1);
  row = rows.layout();
  of_class = scores.layout(1, 2);
}
// `scores`: undefined for a count.
CrossEntropy targets_of(const BoundCall& call, const View& target, const View& weight, const View& scores) {
  want_dtype(target, DType::kI64, "the target");
  if (scores.defined) {
    if (scores.rank() < 2 || target.rank() != scores.rank() - 1) refuse("scores of rank ", scores.rank());
    for (int64_t axis = 0; axis < target.rank(); ++axis)
      if (target.extent(axis) != scores.extent(axis == 0 ? 0 : axis + 1))
        refuse("a target of ", text_of(target.shape), " for scores of ", text_of(scores.shape));
    want_floating(scores);
    if (weight.defined) {
      want_shape(weight, {scores.extent(1)}, "the class weight");
      want_same_dtype(weight, scores);
    }
  }
  if (weight.defined && weight.rank() != 1) refuse("a class weight of rank ", weight.rank());
  CrossEntropy c;
  c.rows = target.elements();
  c.target = reinterpret_cast<const int64_t*>(target.data);
  c.target_row = target.layout();
  c.ignore_index = call.attr_int("ignore_index");
  if (weight.defined) c.weight = weight.data;
  if (weight.defined) c.weight_stride = weight.stride(0);
  if (scores.defined) {
    c.type = scores.dtype;
    c.classes = scores.extent(1);
    c.logits = scores.data;
    split_rows(scores, c.row, c.of_class);
  }
  c.fault = call.fault();
  return c;
}
void take_scalar(CrossEntropy& c, const View& view, const char* what) {
  c.scalar = want_scalar(view, what);
  c.scalar_type = view.dtype;
}
void take_lse(CrossEntropy& c, const View& lse) {
  if (!lse.defined) return;
  want_dtype(lse, DType::kF32, "the row statistics");
  if (lse.elements() != c.rows || !lse.contiguous())
    refuse("row statistics of ", text_of(lse.shape), " for ", c.rows, " rows");
  c.lse = reinterpret_cast<float*>(lse.data);
}

// Rows of halves are computed in f32.
DType computed(DType type) { return type == DType::kF64 ? DType::kF64 : DType::kF32; }
void take_part(CrossEntropy& c, const BoundCall& call, const View& place) {
  want_dtype(place, DType::kI64, "the place");
  want_shape(place, {1}, "the place");
  c.part = {reinterpret_cast<const int64_t*>(place.data), c.classes, call.attr_int("whole")};
}
void take_stats(CrossEntropy& c, const View& stats) {
  want_dtype(stats, computed(c.type), "the rows' statistics");
  if (stats.rank() != 3 || stats.extent(0) != c.rows || stats.extent(2) != 2 || !stats.contiguous())
    refuse("statistics of ", text_of(stats.shape), " for ", c.rows, " rows");
  c.stats = stats.data;
  c.places = stats.extent(1);
}
void take_part_lse(CrossEntropy& c, const View& lse) {
  if (!lse.defined) return;
  want_dtype(lse, computed(c.type), "the row statistics");
  if (lse.elements() != c.rows || !lse.contiguous())
    refuse("row statistics of ", text_of(lse.shape), " for ", c.rows, " rows");
  c.part_lse = lse.data;
}
void want_plain(const CrossEntropy& c) {
  if (c.weight != nullptr || c.smoothing != 0) refuse("a part of the classes with weights or smoothing");
}

}  // namespace

MadeKernel bind_row_lse(const BoundCall& call) {
  CrossEntropy c = targets_of(call, call.in(1), {}, call.in(0));
  take_part(c, call, call.in(2));
  take_stats(c, call.out(0));
  return make_kernel([c](cudaStream_t stream) { launch_row_lse(c, stream); });
}

MadeKernel bind_cross_entropy_sum(const BoundCall& call) {
  CrossEntropy c = targets_of(call, call.in(1), call.in(2), call.in(0));
  c.smoothing = call.attr_double("label_smoothing");
  take_scalar(c, call.out(0), "the output");
  if (call.in(3).defined) {
    take_part(c, call, call.in(4));
    take_stats(c, call.in(3));
    take_part_lse(c, call.out(1));
    want_plain(c);
    c.accumulate = call.accumulate();
    c.parts = call.reserve<double>(kMostLossParts);
    return make_kernel([c](cudaStream_t stream) { launch_merged_loss(c, stream); });
  }
  take_lse(c, call.out(1));
  c.accumulate = call.accumulate();
  c.parts = call.reserve<double>(kMostLossParts);
  return make_kernel([c](cudaStream_t stream) { launch_cross_entropy_sum(c, stream); });
}

MadeKernel bind_cross_entropy_backward(const BoundCall& call) {
  const View &logits = call.in(1), &gradient = call.out(0);
  CrossEntropy c = targets_of(call, call.in(2), call.in(4), logits);
  c.smoothing = call.attr_double("label_smoothing");
  take_scalar(c, call.in(0), "the gradient");
  want_shape(gradient, logits.shape, "the output");
  want_same_dtype(gradient, logits);
  c.gradient = gradient.data;
  split_rows(gradient, c.gradient_row, c.gradient_class);
  if (call.in(5).defined) {
    take_part(c, call, call.in(5));
    take_part_lse(c, call.in(3));
    want_plain(c);
    return make_kernel([c](cudaStream_t stream) { launch_own_gradient(c, stream); });
  }
  take_lse(c, call.in(3));
  return make_kernel([c](cudaStream_t stream) { launch_cross_entropy_backward(c, stream); });
}

MadeKernel bind_cross_entropy_count(const BoundCall& call) {
  const View& weight = call.in(1);
  CrossEntropy c = targets_of(call, call.in(0), weight, {});
  take_scalar(c, call.out(0), "the output");
  if (weight.defined) want_floating(weight);
  c.classes = weight.defined ? weight.extent(0) : std::numeric_limits<int64_t>::max();
  c.type = weight.defined ? weight.dtype : DType::kF32;
  c.accumulate = call.accumulate();
  return make_kernel([c](cudaStream_t stream) { launch_cross_entropy_count(c, stream); });
}

MadeKernel bind_nll_sum(const BoundCall& call) {
  CrossEntropy c = targets_of(call, call.in(1), call.in(2), call.in(0));
  take_scalar(c, call.out(0), "the output");
  c.accumulate = call.accumulate();
  c.parts = call.reserve<double>(kMostLossParts);
  return make_kernel([c](cudaStream_t stream) { launch_nll_sum(c, stream); });
}

MadeKernel bind_nll_backward(const BoundCall& call) {
  const View& dx = call.out(0);
  want_shape(dx, call.attr_ints("shape"), "the output");
  CrossEntropy c = targets_of(call, call.in(1), call.in(2), dx);
  take_scalar(c, call.in(0), "the gradient");
  c.gradient = dx.data;
  split_rows(dx, c.gradient_row, c.gradient_class);
  const StridedElements all{dx.data, dx.dtype, dx.layout()};
  return make_kernel([c, all, count = dx.elements()](cudaStream_t stream) {
    launch_fill(all, count, 0, stream);
    launch_nll_backward(c, stream);
  });
}

}  // namespace piper::kernels::cuda
