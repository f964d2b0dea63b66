#include "compiler/ir/shapes.h"

#include <algorithm>

namespace piper::ir {

bool is_within_bounds(const Shape& shape) {
  int64_t elements = 1;
  for (const int64_t extent : shape) {
    if (extent > kMostExtent || (extent > 0 && elements > kMostElements / extent)) return false;
    elements *= extent > 0 ? extent : 1;
  }
  return true;
}

Shape row_major_strides(const Shape& shape) {
  Shape strides(shape.size());
  int64_t step = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = step;
    step *= shape[i];
  }
  return strides;
}

std::optional<Shape> broadcast_shape(const Shape& a, const Shape& b) {
  Shape out(std::max(a.size(), b.size()));
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) return std::nullopt;
    out[out.size() - 1 - i] = x == 1 ? y : x;
  }
  return out;
}

Shape broadcast_strides(const Shape& from, const Shape& strides, const Shape& to) {
  Shape out(to.size(), 0);
  const size_t lead = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i)
    if (from[i] == to[lead + i]) out[lead + i] = strides[i];
  return out;
}

std::optional<int64_t> known_axis(int64_t axis, size_t rank) {
  const auto axes = static_cast<int64_t>(rank);
  if (axis < -axes || axis >= axes) return std::nullopt;
  return axis_from_front(axis, rank);
}

int64_t slice_bound(int64_t bound, int64_t extent) {
  return std::clamp<int64_t>(bound < 0 ? bound + extent : bound, 0, extent);
}

std::vector<int64_t> inverse_permutation(const std::vector<int64_t>& dims) {
  std::vector<int64_t> inverse(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) inverse[static_cast<size_t>(dims[i])] = static_cast<int64_t>(i);
  return inverse;
}

std::optional<AxisFactor> factor_in_axis(const Shape& shape, size_t axis, int64_t number, int64_t behind) {
  const int64_t stride = elements_behind(shape, axis);
  if (stride == 0 || behind % stride != 0) return std::nullopt;
  const int64_t inner = behind / stride;
  if (inner == 0 || number == 0 || shape[axis] % (number * inner) != 0) return std::nullopt;
  return AxisFactor{shape[axis] / (number * inner), inner};
}

}  // namespace piper::ir
