#include "schemas/verify/numbers/ways_to_read.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "schemas/plan/dtype.h"
#include "schemas/plan/names.h"
#include "schemas/verify/numbers/copies.h"

namespace piper::verify {
namespace {

// More are not tried of one operand.
constexpr size_t kMostWays = 8;

// A rank's part of a value as its part of a copy that moves the axis of experts; nothing where the copy does more, or a
// rank has several experts. Of both a place has the same part, as a rank that is at all places has the same of both.
std::optional<HeldValue> as_part_of(const HeldValue& value, int32_t copy, const NumberTable& table) {
  const Number &of = table[value.number], &moved = table[copy];
  const View& source = moved.operands[0];
  const int64_t part = value.spread.part, devices = value.spread.devices;
  const int64_t here = of.bytes / dtype_bytes(source.dtype) / devices;  // elements of a sample that the rank has
  const bool in_rows =                                                  // samples are outermost
      value.block == 0 || value.block == value.elements_of(of.bytes / dtype_bytes(source.dtype));
  if (moved.over != of.over || moved.bytes != of.bytes || source.offset != 0 || value.period > 0 ||
      value.spread.apart || value.spread.shares || value.spread.surplus > 0 || !value.spread.pieces.empty() || !in_rows)
    return std::nullopt;
  HeldValue result = value;
  result.number = copy;
  result.block = 0;
  int64_t next = 1;  // elements after an axis, of those that the rank has
  bool experts = false;
  for (size_t i = source.axes.size(); i-- > 0;) {
    const ViewAxis& axis = source.axes[i];
    if (axis.samples && (!experts || next * axis.extent != here)) return std::nullopt;  // not the outermost
    if (axis.extent == 1) continue;
    if (!experts && !axis.samples && axis.extent == devices && axis.stride == part) {
      experts = true;
      result.spread.part = next;
      continue;
    }
    const bool outside = axis.stride % (part * devices) == 0;
    if (!outside && axis.extent * axis.stride > part) return std::nullopt;
    if ((outside ? axis.stride / devices : axis.stride) != next) return std::nullopt;
    next *= axis.extent;
  }
  if (!experts || next != here) return std::nullopt;
  return result;
}

// Elements of a rank's one place, read `times` over by an axis of stride 0, as its part of a copy that repeats each
// place so often; nothing where the copy does something else.
std::optional<WayToRead> as_repeated_part(const StridedElements& elements, const HeldValue& value, DType dtype,
                                          int64_t samples, int32_t copy, const NumberTable& table) {
  const Number &of = table[value.number], &made = table[copy];
  const int64_t devices = value.spread.devices;
  const int64_t here = of.bytes / dtype_bytes(dtype) / devices;  // elements of a sample that the rank has
  if (made.by != Kernel::kCopy || made.over != of.over || value.block > 0 || value.period > 0 || value.spread.sources ||
      value.spread.shares || value.spread.surplus > 0 || made.operands[0].dtype != dtype)
    return std::nullopt;
  WayToRead way;
  way.view = {copy, dtype, 0, {}};
  way.where.spread = value.spread;
  View local = {value.number, dtype, 0, {}};
  if (!view_of(elements, of.over, here, samples, local).empty()) return std::nullopt;
  View source = made.operands[0];
  int64_t part = value.spread.part;
  if (const std::vector<int64_t>& pieces = value.spread.pieces; !pieces.empty()) {
    const int32_t segment = take_segment(local, pieces, 1);
    if (segment < 0 || take_segment(source, pieces, devices) != segment) return std::nullopt;
    part = pieces[static_cast<size_t>(segment)];
    way.where.spread.pieces.clear();
  }
  if (local.offset != 0 || source.offset != 0) return std::nullopt;
  const auto has_rows = [](const ViewAxis& axis) { return axis.samples && axis.extent != 1; };
  for (const std::vector<ViewAxis>* axes : {&std::as_const(source.axes), &std::as_const(local.axes)})
    if (std::any_of(axes->begin(), axes->end(), has_rows)) return std::nullopt;
  // What the copy names, without axes of one place; the rank's own, with the axis of places taken out.
  std::vector<ViewAxis> wanted;
  int64_t times = 0;
  size_t outer = 0;  // axes before that of places
  for (const ViewAxis& axis : source.axes) {
    if (axis.samples || axis.extent == 1) continue;
    const bool outside = axis.stride > 0 && axis.stride % (part * devices) == 0;
    if (times == 0 && axis.extent == devices && axis.stride == part) times = 1, outer = wanted.size();
    else if (times == 1 && wanted.size() == outer && axis.stride == 0) times = axis.extent;
    else if (outside) wanted.push_back({axis.extent, axis.stride / devices, false});
    else if (axis.extent * axis.stride <= part) wanted.push_back(axis);
    else return std::nullopt;
  }
  if (times < 2) return std::nullopt;
  std::vector<ViewAxis> found;
  for (size_t i = 0; i < local.axes.size(); ++i) {
    const ViewAxis& axis = local.axes[i];
    const bool repeats = !axis.samples && axis.extent == times && axis.stride == 0 && way.where.part < 0;
    if (repeats && found.size() == outer) way.where.part = static_cast<int32_t>(i);
    else if (!axis.samples && axis.extent != 1) found.push_back(axis);
  }
  if (way.where.part < 0 || found != wanted) return std::nullopt;
  way.view.axes = local.axes;
  int64_t next = 1;
  for (size_t i = way.view.axes.size(); i-- > 0;) {
    ViewAxis& axis = way.view.axes[i];
    if (static_cast<int32_t>(i) == way.where.part) {
      way.where.spread.part = next * times;
      axis = {times * devices, next, false};
    } else if (!axis.samples && axis.extent != 1) {
      axis.stride = next;
    }
    if (!axis.samples) next *= axis.extent;
  }
  return way;
}

}  // namespace

std::vector<WayToRead> ways_to_read(const StridedElements& elements, const HeldValue& value, DType dtype,
                                    int64_t samples, const std::vector<int32_t>& copies, const NumberTable& table,
                                    std::string& why) {
  std::vector<WayToRead> ways;
  const auto add_all = [&](const HeldValue& held) {
    const Number& number = table[held.number];
    const int64_t size = held.elements_of(number.bytes / dtype_bytes(dtype));
    AxisChoice choice;
    const auto first = [&] { return choice.experts == 0 && choice.places == 0 && held.number == value.number; };
    while (ways.size() < kMostWays) {
      WayToRead way;
      way.view.number = held.number;
      way.view.dtype = dtype;
      std::string wrong =
          view_of_spread(elements, held, number.over, size, samples, way.view, way.where, way.places, choice);
      if (first()) why = wrong;
      // A value without an axis of experts, or of places, has one way.
      const bool last_of_experts = way.where.part < 0, last_of_places = way.places.part < 0;
      if (wrong.empty()) {
        through_copies(way.view, table);
        ways.push_back(std::move(way));
      }
      if (!last_of_experts) ++choice.experts;
      else if (!last_of_places) choice = {0, choice.places + 1};
      else return;
    }
  };
  add_all(value);
  if (value.spread.part > 0)
    for (const int32_t copy : copies)
      if (const auto held = as_part_of(value, copy, table)) add_all(*held);
  if (value.spread.part > 0 && value.spread.cut >= 0)
    for (const int32_t copy : copies)
      if (auto way = as_repeated_part(elements, value, dtype, samples, copy, table)) ways.push_back(std::move(*way));
  return ways;
}

std::optional<plan::KernelCall> with_axis_of_experts(const plan::KernelCall& call, const HeldValue& value) {
  if (call.kernel != Kernel::kCopy || call.accumulate || call.inputs.size() != 1 || call.outputs.size() != 1 ||
      call.inputs[0].shape != call.outputs[0].shape || value.spread.part == 0)
    return std::nullopt;
  plan::KernelCall wider = call;
  plan::Operand &in = wider.inputs[0], &out = wider.outputs[0];
  size_t at = 0;  // after all axes that are outside of the experts
  while (at < in.shape.size() && in.strides[at] >= value.spread.part) ++at;
  const auto place = static_cast<std::ptrdiff_t>(at);
  in.strides.insert(in.strides.begin() + place, value.spread.part);
  for (plan::Operand* operand : {&in, &out}) operand->shape.insert(operand->shape.begin() + place, 1);
  out.strides.insert(out.strides.begin() + place, plan::contiguous_strides(out.shape)[at]);
  return wider;
}

}  // namespace piper::verify
