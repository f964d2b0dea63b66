// Arithmetic on shapes, for everything that infers, folds, follows or lays out axes. It knows no operators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace piper::ir {

using Shape = std::vector<int64_t>;

// The product of the extents [from, to) of a shape; 1 of none.
int64_t elements(const Shape& shape, size_t from, size_t to);
inline int64_t elements_behind(const Shape& shape, size_t axis) { return elements(shape, axis + 1, shape.size()); }

// Strides of a dense tensor, in elements.
Shape row_major_strides(const Shape& shape);

// The shape that two shapes broadcast to, aligned at the last axis; nullopt where they do not fit.
std::optional<Shape> broadcast_shape(const Shape& a, const Shape& b);

// Axes are merged and split by reshape, so a number that had an axis may be a factor of one:
// its extent = outer x the number x inner.
struct AxisFactor {
  int64_t outer = 1, inner = 1;
};
// The factor `number` in an axis of `shape`, where in row-major order a step of it is `behind` elements long;
// nullopt where this axis cannot hold it.
std::optional<AxisFactor> factor_in_axis(const Shape& shape, size_t axis, int64_t number, int64_t behind);

}  // namespace piper::ir
