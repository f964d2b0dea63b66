// From operands of calls to views of numbered values: the index maps after strides.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schemas/plan/plan.h"
#include "schemas/verify/numbers/number.h"

namespace piper::verify {

// Elements `offset` + sum of index * stride of a value's memory, as a kernel names them.
struct StridedElements {
  int64_t offset = 0;
  std::vector<int64_t> shape, strides;
};

// Axes of one and the same elements in two orders: by `from` in one memory, by `to` in another, in elements.
struct MappedAxis {
  int64_t extent = 1, from = 0, to = 0;
  friend bool operator==(const MappedAxis&, const MappedAxis&) = default;
};
// Elements of the one memory as elements of the other, as a copy is of what was copied; nothing where an axis runs over
// several of `axes`.
std::optional<StridedElements> mapped(const StridedElements& elements, const std::vector<MappedAxis>& axes);

// The view of elements of a value that is there for `samples` samples; "" or why it is none. `each`: elements of a
// sample, or of the whole value where `over` is not kEach. Of one sample the first axis that could number the samples
// does, where it has an axis for them at all: a view may have left it out.
std::string view_of(const StridedElements& elements, Over over, int64_t each, int64_t samples, View& view);

// The same of a value whose samples are not its outermost axis: in its memory every `block` elements of a sample are
// after those of the sample before. Of one sample nothing is in between, and view_of takes it.
std::string view_between(const StridedElements& elements, int64_t each, int64_t block, int64_t samples, View& view);

// Elements of a value that repeats `period` elements, as elements of the first of these; "" or why not.
std::string within_period(StridedElements& elements, int64_t period);

// Axes in the order in which a kernel goes through elements, each joined with the next where they continue each other;
// those of one place are left out.
std::vector<ViewAxis> joined_axes(const std::vector<ViewAxis>& axes);

}  // namespace piper::verify
