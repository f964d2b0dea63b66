#include "schemas/verify/numbers/spread_views.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include "schemas/verify/numbers/pieces_of_ranks.h"

namespace piper::verify {
namespace {

// Takes out the axis along which a rank after the other is, `stride` elements apart; -1: there is none.
int32_t take_ranks(StridedElements& elements, int64_t devices, int64_t stride) {
  for (size_t i = 0; i < elements.shape.size(); ++i) {
    if (elements.shape[i] != devices || elements.strides[i] != stride) continue;
    elements.shape[i] = 1;
    elements.strides[i] = 0;
    return static_cast<int32_t>(i);
  }
  return -1;
}

// Elements of samples of one rank, the axis of ranks taken out: as those of a value for these samples alone.
std::string view_of_rank(const StridedElements& elements, int64_t size, int64_t block, int64_t samples, View& view) {
  return block == size ? view_of(elements, Over::kEach, size, samples, view)
                       : view_between(elements, size, block, samples, view);
}

std::string view_of_sources(StridedElements elements, const HeldValue& value, int64_t size, int64_t samples, View& view,
                            SpreadView& where) {
  const int64_t devices = value.spread.devices, block = value.block > 0 ? value.block : size;
  if (value.spread.apart) {
    where.sources = take_ranks(elements, devices, samples * size);
    if (where.sources < 0 || elements.offset >= samples * size)
      return "samples of several ranks that are not read rank by rank";
    return view_of_rank(elements, size, block, samples, view);
  }
  std::string why = view_of_rank(elements, size, block, devices * samples, view);
  if (why.empty() || samples == 1) return why;
  // By two axes, of the ranks and of the samples of each.
  where.sources = take_ranks(elements, devices, samples * block);
  if (where.sources < 0) return why;
  const int64_t outer = devices * samples * block;
  for (int64_t& stride : elements.strides)
    if (stride % outer == 0) stride /= devices;
  if (elements.offset % outer >= samples * block) return "samples of some ranks";
  elements.offset = elements.offset / outer * (samples * block) + elements.offset % outer;
  return view_of_rank(elements, size, block, samples, view);
}

// The axes of a view that may be the experts', of elements of which a rank has `part` in a row; last those of which a
// rank has a part of several segments, where a tensor is cut; rows of samples in one axis, of which that part is one,
// are the last of these.
std::vector<int32_t> axes_of_experts(const StridedElements& elements, const View& view, const Spread& spread) {
  const int64_t part = spread.part;
  std::vector<int32_t> axes, others, segments;
  for (size_t i = 0; i < view.axes.size(); ++i) {
    const ViewAxis& axis = view.axes[i];
    const bool one = elements.shape[i] == 1 && !axis.samples;
    const bool whole = axis.extent > 1 && axis.stride > 0 && axis.extent * axis.stride == part;
    const bool rows = axis.samples || view.axes.size() == 1;
    const bool inside = axis.stride < part || (rows && axis.stride == part && axis.extent > 1);
    const bool several = spread.cut >= 0 && axis.stride > 0 && inside && part % axis.stride == 0 &&
                         axis.extent * axis.stride % part == 0;
    if (whole || (one && elements.strides[i] >= part)) axes.push_back(static_cast<int32_t>(i));
    else if (one) others.push_back(static_cast<int32_t>(i));
    else if (several) segments.push_back(static_cast<int32_t>(i));
  }
  axes.insert(axes.end(), others.begin(), others.end());
  axes.insert(axes.end(), segments.begin(), segments.end());
  return axes;
}

// A view of what a rank has, as the view of what all ranks have together.
std::string of_all_parts(const StridedElements& elements, const Spread& spread, View& view, size_t choice,
                         SpreadView& where) {
  const int64_t rows = spread.part, all = spread.of_all();
  int64_t last = view.offset % rows;
  const std::vector<int32_t> axes = axes_of_experts(elements, view, spread);
  if (choice >= axes.size()) return "experts of one rank that are told apart from those of others";
  where.part = axes[choice];
  for (size_t i = 0; i < view.axes.size(); ++i) {
    ViewAxis& axis = view.axes[i];
    if (static_cast<int32_t>(i) == where.part) {
      where.segments = axis.stride > 0 ? std::max<int64_t>(axis.extent * axis.stride / rows, 1) : 1;
      last += (axis.extent / where.segments - 1) * axis.stride;
      if (axis.extent == 1) axis.stride = rows;
      where.surplus = spread.surplus / axis.stride;
      if (where.surplus * axis.stride != spread.surplus || (spread.surplus > 0 && where.segments > 1))
        return "parts of unequal size of several segments";
      axis.extent = axis.extent * spread.devices - where.surplus;
    } else if (axis.stride % rows == 0) {
      axis.stride = axis.stride / rows * all;
    } else {
      last += (axis.extent - 1) * axis.stride;
    }
  }
  view.offset = view.offset / rows * all + view.offset % rows;
  return last < rows ? "" : "an operand that names experts of several ranks in parts";
}

// Rows of so many elements as rows of another number of them.
void change_rows(View& view, int64_t from, int64_t to) {
  for (ViewAxis& axis : view.axes)
    if (axis.extent > 1 && axis.stride % from == 0) axis.stride = axis.stride / from * to;
  view.offset = view.offset / from * to + view.offset % from;
}

// The same where a rank has a part of each of several segments of unequal size: of all of them, or of one, which the
// view names alone.
std::string of_unequal_parts(const StridedElements& elements, const Spread& spread, View& view, size_t choice,
                             SpreadView& where) {
  const int64_t row = spread.part;  // a rank's, of all segments
  for (size_t i = 0; i < view.axes.size() && view.offset % row == 0; ++i) {
    ViewAxis& axis = view.axes[i];
    if (axis.stride < 1 || axis.extent * axis.stride != row) continue;
    if (choice > 0) return "another axis than that of the segments";
    for (const int64_t piece : spread.pieces) {
      if (piece % axis.stride != 0) return "an operand that takes segments of unequal size apart";
      where.extents.push_back(piece / axis.stride * spread.devices);
    }
    where.segments = static_cast<int64_t>(spread.pieces.size());
    where.part = static_cast<int32_t>(i);
    axis.extent *= spread.devices;
    for (ViewAxis& other : view.axes)
      if (&other != &axis && other.stride % row == 0) other.stride *= spread.devices;
    view.offset *= spread.devices;
    return "";
  }
  const int32_t segment = take_segment(view, spread.pieces, 1);
  if (segment < 0) return "an operand that names parts of several segments";
  Spread one = spread;
  one.part = spread.pieces[static_cast<size_t>(segment)];
  one.pieces.clear();
  std::string why = of_all_parts(elements, one, view, choice, where);
  // Among the others again, where all ranks' parts of it are.
  const int64_t begin = std::accumulate(spread.pieces.begin(), spread.pieces.begin() + segment, int64_t{0});
  change_rows(view, one.of_all(), row * spread.devices);
  view.offset += begin * spread.devices;
  where.spread = one;
  return why;
}

// Elements of which a place has a part, as they are where all places' parts are, as `view` says.
StridedElements of_whole_places(StridedElements elements, const Spread& spread, const View& view,
                                const SpreadView& places) {
  if (spread.part == 0) return elements;
  for (size_t i = 0; i < elements.shape.size(); ++i)
    if (static_cast<int32_t>(i) == places.part) elements.shape[i] = view.axes[i].extent;
    else if (elements.strides[i] % spread.part == 0)
      elements.strides[i] = elements.strides[i] / spread.part * spread.of_all();
  elements.offset = view.offset;
  return elements;
}

}  // namespace

int32_t take_segment(View& view, const std::vector<int64_t>& pieces, int64_t scale) {
  const int64_t row = std::accumulate(pieces.begin(), pieces.end(), int64_t{0}) * scale;
  int64_t begin = 0, last = view.offset % row;
  size_t segment = 0;
  while (last >= begin + pieces[segment] * scale) begin += pieces[segment++] * scale;
  for (const ViewAxis& axis : view.axes)
    if (axis.stride % row != 0) last += (axis.extent - 1) * axis.stride;
  const int64_t piece = pieces[segment] * scale;
  if (last >= begin + piece) return -1;
  view.offset -= begin;
  change_rows(view, row, piece);
  return static_cast<int32_t>(segment);
}

std::string view_of_places(const StridedElements& elements, const HeldValue& value, View& view, SpreadView& places,
                           size_t choice) {
  places = {};
  places.spread = value.places;
  if (value.places.part == 0) return "";
  return value.places.pieces.empty() ? of_all_parts(elements, value.places, view, choice, places)
                                     : of_unequal_parts(elements, value.places, view, choice, places);
}

std::string view_of_spread(StridedElements elements, const HeldValue& value, Over over, int64_t size, int64_t samples,
                           View& view, SpreadView& where, SpreadView& places, const AxisChoice& choice) {
  where = {};
  where.spread = value.spread;
  if (value.period > 0) return "a repeated value of experts";
  StridedElements as_read = elements;
  std::string why;
  if (value.spread.shares) {
    const int64_t all = size * (over == Over::kEach ? samples : 1);
    where.shares = take_ranks(elements, value.spread.devices, all);
    if (where.shares < 0 || elements.offset != 0) return "shares of a sum that are not added up";
    where.spread = {value.spread.devices};
    // Any axis of one place may be that of one sample, but not this one.
    elements.shape.erase(elements.shape.begin() + where.shares);
    elements.strides.erase(elements.strides.begin() + where.shares);
  }
  if (has_pieces_of_ranks(value.spread, over)) {
    samples = 1;  // of each rank: its piece
    over = Over::kEach;
  }
  if (over == Over::kEach && value.spread.sources)
    why = view_of_sources(std::move(elements), value, size, samples, view, where);
  else if (over == Over::kEach && value.block > 0) why = view_between(elements, size, value.block, samples, view);
  else why = view_of(elements, over, size, samples, view);
  if (where.shares >= 0) view.axes.insert(view.axes.begin() + where.shares, ViewAxis());
  if (why.empty()) why = view_of_places(as_read, value, view, places, choice.places);
  if (!why.empty() || value.spread.part == 0) return why;
  as_read = of_whole_places(std::move(as_read), value.places, view, places);
  return value.spread.pieces.empty() ? of_all_parts(as_read, value.spread, view, choice.experts, where)
                                     : of_unequal_parts(as_read, value.spread, view, choice.experts, where);
}

}  // namespace piper::verify
