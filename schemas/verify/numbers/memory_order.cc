#include "schemas/verify/numbers/memory_order.h"

#include <algorithm>

#include "schemas/plan/dtype.h"
#include "schemas/plan/names.h"
#include "schemas/verify/numbers/views.h"

namespace piper::verify {

using plan::Operand;

namespace {

// The axes of an operand in the order of its memory.
std::vector<size_t> axes_by_stride(const Operand& out) {
  std::vector<size_t> order;
  for (size_t axis = 0; axis < out.shape.size(); ++axis)
    if (out.shape[axis] != 1) order.push_back(axis);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return out.strides[a] > out.strides[b]; });
  return order;
}

}  // namespace

int64_t span_bytes(const Operand& operand) {
  int64_t last = 0;
  for (size_t axis = 0; axis < operand.shape.size(); ++axis) last += (operand.shape[axis] - 1) * operand.strides[axis];
  return (last + 1) * dtype_bytes(operand.dtype);
}

bool is_dense(const Operand& out) {
  const std::vector<size_t> order = axes_by_stride(out);
  int64_t dense = 1;
  for (size_t i = order.size(); i-- > 0;) {
    if (out.strides[order[i]] != dense) return false;
    dense *= out.shape[order[i]];
  }
  return true;
}

bool has_no_gaps(const Operand& out) { return is_dense(out) || out.strides == plan::contiguous_strides(out.shape); }

std::optional<std::vector<ViewAxis>> in_memory_order(const Operand& out, const std::vector<ViewAxis>& axes) {
  if (!is_dense(out)) return std::nullopt;
  std::vector<ViewAxis> result;
  for (const size_t axis : axes_by_stride(out)) result.push_back(axes[axis]);
  return joined_axes(result);
}

}  // namespace piper::verify
