// The rows that layer_norm and rms_norm normalise: all but the last `axes` axes of x, in order.
#pragma once

#include "runtime/kernels/binding.h"

namespace piper::kernels {

struct NormRows {
  int64_t rows = 1, columns = 1;
  double eps = 0;
};

// Refuses attributes that do not fit x.
inline NormRows norm_rows(const Call& call, const at::Tensor& x) {
  const int64_t axes = call.attr_int("axes");
  if (axes < 1 || axes > x.dim()) refuse("attribute `axes` is ", axes, " for rank ", x.dim());
  NormRows r;
  r.eps = call.attr_double("eps");
  for (int64_t axis = 0; axis < x.dim(); ++axis) (axis < x.dim() - axes ? r.rows : r.columns) *= x.size(axis);
  return r;
}

}  // namespace piper::kernels
