#include "schemas/verify/numbers/views.h"

#include <algorithm>

namespace piper::verify {
namespace {

// Joins axes that lie after one another in both memories.
std::vector<MappedAxis> joined(const std::vector<MappedAxis>& axes) {
  std::vector<MappedAxis> result;
  for (const MappedAxis& axis : axes) {
    if (axis.extent == 1) continue;
    if (!result.empty() && result.back().from == axis.extent * axis.from && result.back().to == axis.extent * axis.to) {
      result.back().extent *= axis.extent;
      result.back().from = axis.from;
      result.back().to = axis.to;
    } else {
      result.push_back(axis);
    }
  }
  std::sort(result.begin(), result.end(), [](const MappedAxis& a, const MappedAxis& b) { return a.from > b.from; });
  return result;
}

}  // namespace

std::optional<StridedElements> mapped(const StridedElements& elements, const std::vector<MappedAxis>& to) {
  const std::vector<MappedAxis> axes = joined(to);
  for (const MappedAxis& axis : axes)
    if (axis.from <= 0) return std::nullopt;
  StridedElements result{0, elements.shape, std::vector<int64_t>(elements.shape.size(), 0)};
  std::vector<int64_t> last(axes.size());  // the last index along each axis
  int64_t rest = elements.offset;
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    last[axis] = rest / axes[axis].from;
    rest %= axes[axis].from;
    result.offset += last[axis] * axes[axis].to;
  }
  if (rest != 0) return std::nullopt;
  for (size_t i = 0; i < elements.shape.size(); ++i) {
    const int64_t extent = elements.shape[i], stride = elements.strides[i];
    if (extent == 1 || stride == 0) continue;
    bool found = false;
    for (size_t axis = 0; axis < axes.size() && !found; ++axis) {
      const int64_t step = stride / axes[axis].from;
      if (stride % axes[axis].from != 0 || last[axis] + (extent - 1) * step >= axes[axis].extent) continue;
      last[axis] += (extent - 1) * step;
      result.strides[i] = step * axes[axis].to;
      found = true;
    }
    if (!found) return std::nullopt;
  }
  for (size_t axis = 0; axis < axes.size(); ++axis)
    if (last[axis] >= axes[axis].extent) return std::nullopt;
  return result;
}

std::string view_of(const StridedElements& elements, Over over, int64_t each, int64_t samples, View& view) {
  view.offset = elements.offset;
  view.axes.assign(elements.shape.size(), {});
  int64_t last = elements.offset;
  for (size_t i = 0; i < elements.shape.size(); ++i) {
    ViewAxis& axis = view.axes[i];
    axis.extent = elements.shape[i];
    axis.stride = axis.extent == 1 ? 0 : elements.strides[i];
  }
  if (over == Over::kEach) {
    const auto one = [&](size_t i) {
      return elements.shape[i] == samples && (samples == 1 || elements.strides[i] == each);
    };
    const auto rows = [&](size_t i) {  // of each sample several
      return elements.shape[i] % samples == 0 && elements.shape[i] > samples && elements.strides[i] > 0 &&
             elements.shape[i] / samples * elements.strides[i] == each;
    };
    // For one sample every axis with one row could be the samples', and the first one is.
    size_t chosen = 0;
    const size_t rank = elements.shape.size();
    if (samples != 1 || rank == 0 || (!one(0) && !rows(0))) {
      while (chosen < rank && !one(chosen)) ++chosen;
      if (chosen == rank) chosen = 0;
      while (chosen < rank && !one(chosen) && !rows(chosen)) ++chosen;
    }
    // What one sample's rows are in some larger value, all are of this sample.
    if (chosen == rank && samples == 1)
      for (chosen = 0; chosen < rank && (elements.shape[chosen] == 1 || elements.strides[chosen] <= 0);) ++chosen;
    if (chosen == rank) return "an operand that does not name all samples";
    ViewAxis& axis = view.axes[chosen];
    axis.samples = true;
    axis.extent = elements.shape[chosen] / samples;
    axis.stride = axis.extent == 1 ? 0 : elements.strides[chosen];
  }
  for (const ViewAxis& axis : view.axes) last += (axis.extent - 1) * axis.stride;
  return last < each || elements.shape.empty() || each == 0 ? "" : "an operand that names parts of several samples";
}

std::string view_between(const StridedElements& elements, int64_t each, int64_t block, int64_t samples, View& view) {
  const int64_t outer = samples * block;
  if (elements.offset / block % samples != 0) return "an operand that does not name all samples";
  int64_t last_inside = elements.offset % block, last_outside = elements.offset / outer;
  view.offset = last_outside * block + last_inside;
  view.axes.assign(elements.shape.size(), {});
  bool found = false;
  for (size_t i = 0; i < elements.shape.size(); ++i) {
    const int64_t extent = elements.shape[i], stride = elements.strides[i];
    ViewAxis& axis = view.axes[i];
    axis.extent = extent;
    if (extent == 1 || stride == 0) continue;
    const int64_t rows = extent / samples;
    if (stride % outer == 0) {
      axis.stride = stride / samples;
      last_outside += (extent - 1) * (stride / outer);
    } else if (!found && rows * samples == extent && rows * stride == block) {
      found = axis.samples = true;
      axis.extent = rows;
      axis.stride = rows == 1 ? 0 : stride;
      last_inside += (rows - 1) * stride;
    } else {
      axis.stride = stride;
      last_inside += (extent - 1) * stride;
    }
  }
  if (!found) return "an operand that does not name all samples";
  return last_inside < block && last_outside * block < each ? "" : "an operand that names parts of several samples";
}

std::string within_period(StridedElements& elements, int64_t period) {
  elements.offset %= period;
  int64_t last = elements.offset;
  for (size_t i = 0; i < elements.shape.size(); ++i) {
    if (elements.strides[i] % period == 0) elements.strides[i] = 0;
    last += (elements.shape[i] - 1) * elements.strides[i];
  }
  return last < period ? "" : "an operand that runs over repetitions of a value";
}

std::vector<ViewAxis> joined_axes(const std::vector<ViewAxis>& axes) {
  std::vector<ViewAxis> result;
  for (const ViewAxis& next : axes) {
    if (next.extent == 1 && !next.samples) continue;
    if (!result.empty() && !next.samples && !result.back().samples &&
        result.back().stride == next.extent * next.stride) {
      result.back().extent *= next.extent;
      result.back().stride = next.stride;
    } else {
      result.push_back(next);
    }
  }
  return result;
}

}  // namespace piper::verify
