#include "compiler/ir/shapes.h"

#include <algorithm>

namespace piper::ir {

int64_t elements(const Shape& shape, size_t from, size_t to) {
  int64_t n = 1;
  for (size_t i = from; i < to; ++i) n *= shape[i];
  return n;
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

std::optional<AxisFactor> factor_in_axis(const Shape& shape, size_t axis, int64_t number, int64_t behind) {
  const int64_t stride = elements_behind(shape, axis);
  if (stride == 0 || behind % stride != 0) return std::nullopt;
  const int64_t inner = behind / stride;
  if (inner == 0 || number == 0 || shape[axis] % (number * inner) != 0) return std::nullopt;
  return AxisFactor{shape[axis] / (number * inner), inner};
}

}  // namespace piper::ir
