// Operators that change the shape or select a box of their operand.
#include <algorithm>

#include "compiler/frontend/exact_integers.h"
#include "compiler/frontend/onnx/ops.h"
#include "compiler/ir/shapes.h"

namespace piper::frontend::onnx {
namespace {

// The axes of Squeeze, Unsqueeze: the second operand.
std::vector<int64_t> axes_of(NodeImport& n, int64_t rank) {
  std::vector<int64_t> axes = n.has(1) ? n.ints(n.in(1), "axes") : n.ints_attr("axes", {});
  for (int64_t& a : axes) a = n.axis(a, rank);
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) n.refuse("it names an axis twice");
  return axes;
}

struct Range {
  int64_t start = 0, end = 0, step = 1;
};

// Bounds of one axis as in Python: negative ones count from the end, then they are clamped.
Range clamp_range(int64_t start, int64_t end, int64_t step, int64_t extent) {
  const auto from_end = [&](int64_t v) { return v < 0 && v >= -extent ? v + extent : v; };
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? extent : extent - 1;
  const auto clamp = [&](int64_t v) {
    return std::min(std::max(from_end(v), v < -extent ? low : v < 0 ? int64_t{0} : low), high);
  };
  return {clamp(start), clamp(end), step};
}

ValueId slice_axis(NodeImport& n, ValueId x, int64_t axis, int64_t start, int64_t end, int64_t step) {
  const int64_t extent = n.shape(x)[static_cast<size_t>(axis)];
  const Range r = clamp_range(start, end, step, extent);
  if (step > 0)
    return n.slice(x, axis, r.start, std::max(r.start, r.end), std::min(step, std::max<int64_t>(extent, 1)));
  if (!n.may_make(extent * 8)) return x;
  std::vector<int64_t> index;
  for (int64_t i = r.start; i > r.end; i += std::max(step, -std::max<int64_t>(extent, 1))) index.push_back(i);
  return n.index_select(x, axis, index);
}

}  // namespace

void import_reshape(NodeImport& n) {
  const ValueId x = n.in(0);
  std::vector<int64_t> to = n.ints(n.in(1), "shape");
  if (!n.ok()) return;
  const Extents from = n.shape(x);
  const bool keep_zero = n.int_attr("allowzero", 0) != 0;
  size_t open = to.size();
  int64_t known = 1;
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i] == 0 && !keep_zero) {
      if (i >= from.size()) return n.refuse("its shape copies an axis that the operand does not have");
      to[i] = from[i];
    }
    if (to[i] == -1) {
      if (open != to.size()) return n.refuse("its shape leaves two axes open");
      open = i;
    } else if (to[i] < 0 || __builtin_mul_overflow(known, to[i], &known)) {
      return n.refuse("its shape is negative or too large");
    }
  }
  if (open != to.size()) {
    const int64_t elements = n.type(x).elements();
    if (known == 0 || elements % known != 0)
      return n.refuse("its operand has " + std::to_string(elements) + " elements, which do not fit its shape");
    to[open] = elements / known;
  }
  if (from == to) return n.set(0, x);
  if (const std::optional<ValueId> y = match_group_norm_reshape(n, x, to)) return n.set(0, *y);
  n.result(OpKind::kReshape, {x}, ir::ReshapeAttrs{std::move(to)});
}

void import_flatten(NodeImport& n) {
  const ValueId x = n.in(0);
  const Extents shape = n.shape(x);
  const auto rank = static_cast<int64_t>(shape.size());
  const int64_t axis = n.int_attr("axis", 1);
  if (axis < -rank || axis > rank) return n.refuse("the axis " + std::to_string(axis) + " does not exist");
  const auto front = static_cast<size_t>(ir::axis_from_front(axis, shape.size()));
  const std::vector<int64_t> to = {ir::elements_before(shape, front), ir::elements(shape, front, shape.size())};
  if (shape == to) return n.set(0, x);
  n.result(OpKind::kReshape, {x}, ir::ReshapeAttrs{to});
}

void import_squeeze(NodeImport& n) {
  const ValueId x = n.in(0);
  const Extents from = n.shape(x);
  const bool some = n.has(1) || n.node().find("axes") != nullptr;
  const std::vector<int64_t> axes = some ? axes_of(n, static_cast<int64_t>(from.size())) : std::vector<int64_t>();
  if (!n.ok()) return;
  std::vector<int64_t> to;
  for (size_t i = 0; i < from.size(); ++i) {
    const bool named = some ? std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(i)) : from[i] == 1;
    if (named && from[i] != 1)
      return n.refuse("it removes the axis " + std::to_string(i) + " of extent " + std::to_string(from[i]));
    if (!named) to.push_back(from[i]);
  }
  if (from == to) return n.set(0, x);
  n.result(OpKind::kReshape, {x}, ir::ReshapeAttrs{to});
}

void import_unsqueeze(NodeImport& n) {
  const ValueId x = n.in(0);
  const Extents from = n.shape(x);
  const size_t added = n.has(1) ? n.ints(n.in(1), "axes").size() : n.ints_attr("axes", {}).size();
  const std::vector<int64_t> axes = axes_of(n, static_cast<int64_t>(from.size() + added));
  if (!n.ok()) return;
  std::vector<int64_t> to(from.size() + added, 0);
  for (const int64_t a : axes) to[static_cast<size_t>(a)] = 1;
  size_t next = 0;
  for (size_t i = 0; i < to.size(); ++i)
    if (!std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(i))) to[i] = from[next++];
  if (from == to) return n.set(0, x);
  n.result(OpKind::kReshape, {x}, ir::ReshapeAttrs{to});
}

void import_transpose(NodeImport& n) {
  const ValueId x = n.in(0);
  std::vector<int64_t> perm = n.ints_attr("perm", {});
  if (n.node().find("perm") == nullptr)
    for (int64_t i = n.rank(x); i-- > 0;) perm.push_back(i);
  bool same = perm.size() == n.shape(x).size();
  for (size_t i = 0; i < perm.size(); ++i) same = same && perm[i] == static_cast<int64_t>(i);
  if (same) return n.set(0, x);
  n.result(OpKind::kPermute, {x}, ir::PermuteAttrs{perm});
}

void import_expand(NodeImport& n) {
  const ValueId x = n.in(0);
  const std::vector<int64_t> wanted = n.ints(n.in(1), "shape");
  if (!n.ok()) return;
  const std::optional<std::vector<int64_t>> to = ir::broadcast_shape(n.shape(x), wanted);
  if (!to) return n.refuse("its operand cannot be broadcast to its shape");
  if (n.shape(x) == *to) return n.set(0, x);
  n.result(OpKind::kExpand, {x}, ir::ExpandAttrs{*to});
}

void import_tile(NodeImport& n) {
  const ValueId x = n.in(0);
  const std::vector<int64_t> repeats = n.ints(n.in(1), "repeats");
  if (n.ok() && repeats.size() != n.shape(x).size()) return n.refuse("it wants one number per axis");
  for (const int64_t r : repeats)
    if (r < 0) return n.refuse("it repeats an axis " + std::to_string(r) + " times");
  n.is_call("aten.repeat.default", {x, repeats});
}

void import_slice(NodeImport& n) {
  ValueId x = n.in(0);
  const int64_t rank = n.rank(x);
  const std::vector<int64_t> starts = n.ints(n.in(1), "starts"), ends = n.ints(n.in(2), "ends");
  std::vector<int64_t> axes, steps(starts.size(), 1);
  for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  if (n.has(3)) axes = n.ints(n.in(3), "axes");
  if (n.has(4)) steps = n.ints(n.in(4), "steps");
  if (!n.ok()) return;
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    return n.refuse("its bounds, axes and steps are of different lengths");
  for (size_t i = 0; i < starts.size() && n.ok(); ++i) {
    const int64_t axis = n.axis(axes[i], rank);
    if (steps[i] == 0) n.refuse("its step is 0");
    if (n.ok()) x = slice_axis(n, x, axis, starts[i], ends[i], steps[i]);
  }
  n.set(0, x);
}

// [N, C b b, H, W] -> [N, C, H b, W b]. Mode DCR: the channels of a square are outermost, CRD: those of the result.
void import_depth_to_space(NodeImport& n) {
  const ValueId x = n.in(0);
  const int64_t b = n.int_attr("blocksize", 0);
  const std::string mode = n.string_attr("mode", "DCR");
  if (!n.ok()) return;
  const Extents s = n.shape(x);
  if (mode != "DCR" && mode != "CRD") return n.refuse("its mode '" + mode.substr(0, 40) + "' is neither DCR nor CRD");
  if (s.size() != 4 || b < 1 || b > s[1] || s[1] % b != 0 || s[1] / b % b != 0)
    return n.refuse("it wants [N, C, H, W] with channels that are a multiple of the block's square");
  const int64_t channels = s[1] / b / b;
  const bool squares_first = mode == "DCR";
  const ValueId apart = squares_first ? n.reshape(x, {s[0], b, b, channels, s[2], s[3]})
                                      : n.reshape(x, {s[0], channels, b, b, s[2], s[3]});
  const ValueId turned =
      n.permute(apart, squares_first ? std::vector<int64_t>{0, 3, 4, 1, 5, 2} : std::vector<int64_t>{0, 1, 4, 2, 5, 3});
  n.result(OpKind::kReshape, {turned}, ir::ReshapeAttrs{{s[0], channels, s[2] * b, s[3] * b}});
}

// [N, C, H b, W b] -> [N, b b C, H, W], the inverse of DepthToSpace in the same mode.
void import_space_to_depth(NodeImport& n) {
  const ValueId x = n.in(0);
  const int64_t b = n.int_attr("blocksize", 0);
  const std::string mode = n.string_attr("mode", "DCR");
  if (!n.ok()) return;
  const Extents s = n.shape(x);
  if (mode != "DCR" && mode != "CRD") return n.refuse("its mode '" + mode.substr(0, 40) + "' is neither DCR nor CRD");
  if (s.size() != 4 || b < 1 || s[2] % b != 0 || s[3] % b != 0)
    return n.refuse("it wants [N, C, H, W] with H and W multiples of the block");
  if (mode == "CRD") return n.is_call("aten.pixel_unshuffle.default", {x, b});
  const int64_t height = s[2] / b, width = s[3] / b;
  const ValueId turned =
      n.permute(n.reshape(x, {s[0], s[1], height, b, width, b}), std::vector<int64_t>{0, 3, 5, 1, 2, 4});
  n.result(OpKind::kReshape, {turned}, ir::ReshapeAttrs{{s[0], s[1] * b * b, height, width}});
}

// The middle of each axis, or zeros around it; of an odd difference one more at the end.
void import_center_crop_pad(NodeImport& n) {
  const ValueId x = n.in(0);
  const Extents wanted = n.ints(n.in(1), "shape"), from = n.shape(x);
  std::vector<int64_t> axes = n.ints_attr("axes", {});
  if (axes.empty())
    for (int64_t i = 0; i < n.rank(x); ++i) axes.push_back(i);
  if (n.ok() && axes.size() != wanted.size()) return n.refuse("it wants a number for each axis");
  const std::vector<int64_t> none(from.size(), 0);
  ir::PadAttrs attrs{none, none, 0};
  for (size_t i = 0; i < axes.size() && n.ok(); ++i) {
    const auto axis = static_cast<size_t>(n.axis(axes[i], n.rank(x)));
    if (!n.ok()) return;
    const int64_t extent = from[axis], more = wanted[i] - extent;
    if (wanted[i] < 0) return n.refuse("its shape is negative");
    attrs.low[axis] = more >= 0 ? more / 2 : -(-more / 2);
    attrs.high[axis] = more - attrs.low[axis];
  }
  n.result(OpKind::kPad, {x}, std::move(attrs));
}

namespace {
// Which element of `extent` is at a place outside of them, too.
int64_t padded_place(const std::string& mode, int64_t at, int64_t extent) {
  if (mode == "edge") return std::clamp<int64_t>(at, 0, extent - 1);
  const int64_t period = mode == "wrap" ? extent : std::max<int64_t>(2 * (extent - 1), 1);
  const int64_t rest = ((at % period) + period) % period;
  return rest < extent ? rest : period - rest;
}
}  // namespace

void import_pad(NodeImport& n) {
  const ValueId x = n.in(0);
  const int64_t rank = n.rank(x);
  const std::string mode = n.string_attr("mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap")
    return n.refuse("its mode '" + mode.substr(0, 40) +
                    "' is not supported; 'constant', 'reflect', 'edge' and 'wrap' are");
  const std::vector<int64_t> pads = n.ints(n.in(1), "pads");
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < rank; ++i) axes.push_back(i);
  if (n.has(3)) axes = n.ints(n.in(3), "axes");
  double value = 0;
  if (n.has(2)) {
    const std::optional<double> v = n.known_number(n.in(2));
    if (!v) return n.refuse("its value is not known when the model is compiled", "P0323");
    value = *v;
  }
  if (!n.ok()) return;
  if (pads.size() != 2 * axes.size()) return n.refuse("it wants two numbers per axis");
  if (!is_exact(n.dtype(x), value))
    return n.refuse("it pads integers with a number that a double does not hold exactly");
  ir::PadAttrs attrs{std::vector<int64_t>(static_cast<size_t>(rank), 0),
                     std::vector<int64_t>(static_cast<size_t>(rank), 0), value};
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(n.axis(axes[i], rank));
    if (!n.ok()) return;
    attrs.low[axis] = pads[i];
    attrs.high[axis] = pads[axes.size() + i];
  }
  if (mode == "constant") return n.result(OpKind::kPad, {x}, std::move(attrs));
  ValueId y = x;
  for (size_t axis = 0; axis < attrs.low.size() && n.ok(); ++axis) {
    if (attrs.low[axis] == 0 && attrs.high[axis] == 0) continue;
    const int64_t extent = n.shape(x)[axis], end = extent + attrs.high[axis];
    constexpr int64_t kMost = int64_t{1} << 31;
    if (extent < 1 || end > kMost || attrs.low[axis] > kMost || end + attrs.low[axis] < 0)
      return n.refuse("its pads do not fit its operand");
    std::vector<int64_t> read;
    for (int64_t at = -attrs.low[axis]; at < end; ++at) read.push_back(padded_place(mode, at, extent));
    y = n.emit(OpKind::kIndexSelect, {y, n.builder().constant_i64({static_cast<int64_t>(read.size())}, read)},
               ir::DimAttrs{static_cast<int64_t>(axis)});
  }
  n.set(0, y);
}

}  // namespace piper::frontend::onnx
