// Arithmetic on shapes, for everything that infers, folds, follows or lays out axes. It knows no operators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace piper::ir {

using Shape = std::vector<int64_t>;

// The product of the extents [from, to) of a shape; 1 of none.
inline int64_t elements(const Shape& shape, size_t from, size_t to) {
  int64_t n = 1;
  for (size_t i = from; i < to; ++i) n *= shape[i];
  return n;
}
inline int64_t elements(const Shape& shape) { return elements(shape, 0, shape.size()); }
inline int64_t elements_before(const Shape& shape, size_t axis) { return elements(shape, 0, axis); }
inline int64_t elements_behind(const Shape& shape, size_t axis) { return elements(shape, axis + 1, shape.size()); }

// Bounds that keep all later arithmetic on extents, attributes and bytes inside int64_t: texts and model files may hold
// any number. Weights of experts that are gathered for each token of a step (of 32 million tokens 2^50 elements) are
// recognised and never made, but have a shape until then.
inline constexpr int64_t kMostExtent = int64_t{1} << 40, kMostElements = int64_t{1} << 51;
// Whether no extent, nor the number of elements, is beyond them.
bool is_within_bounds(const Shape& shape);

// Strides of a dense tensor, in elements.
Shape row_major_strides(const Shape& shape);

// The shape that two shapes broadcast to, aligned at the last axis; nullopt where they do not fit.
std::optional<Shape> broadcast_shape(const Shape& a, const Shape& b);

// Strides that read a tensor of shape `from`, which has `strides`, as if it were expanded to `to`: 0 along the axes
// that repeat it. `from` broadcasts to `to`.
Shape broadcast_strides(const Shape& from, const Shape& strides, const Shape& to);
inline Shape broadcast_strides(const Shape& from, const Shape& to) {
  return broadcast_strides(from, row_major_strides(from), to);
}

// An axis among `rank`, where negative ones count from the end: first as it comes, for whoever checks the result; then
// nullopt where there is no such axis.
inline int64_t axis_from_front(int64_t axis, size_t rank) {
  return axis < 0 ? axis + static_cast<int64_t>(rank) : axis;
}
std::optional<int64_t> known_axis(int64_t axis, size_t rank);
// The bound of a slice as in Python: negative ones count from the end, and those outside are moved to the ends.
int64_t slice_bound(int64_t bound, int64_t extent);

// The permutation that takes `dims` back: axis dims[i] of the operand is axis i of the result.
std::vector<int64_t> inverse_permutation(const std::vector<int64_t>& dims);

// Axes are merged and split by reshape, so a number that had an axis may be a factor of one:
// its extent = outer x the number x inner.
struct AxisFactor {
  int64_t outer = 1, inner = 1;
};
// The factor `number` in an axis of `shape`, where in row-major order a step of it is `behind` elements long;
// nullopt where this axis cannot hold it.
std::optional<AxisFactor> factor_in_axis(const Shape& shape, size_t axis, int64_t number, int64_t behind);

}  // namespace piper::ir
