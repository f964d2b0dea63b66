// GridSample: images read at the places of a grid, between -1 and 1, the last axis first. The exporter writes ATen's
// grid_sampler in parts of its own, so that there is no row for it.
#include "compiler/frontend/formulas.h"
#include "compiler/frontend/onnx/ops.h"

namespace piper::frontend::onnx {
namespace {

using aten::Call;

enum class Between : uint8_t { kLinear, kNearest, kCubic };
enum class Beyond : uint8_t { kZeros, kBorder, kReflection };

ValueId plus(Call& c, ValueId a, double b) { return b == 0 ? a : c.binary(OpKind::kAdd, a, b); }
ValueId times(Call& c, ValueId a, double b) { return c.binary(OpKind::kMul, a, b); }

// A place outside of the borders is mirrored at them, as often as it takes (GridSampler.h, reflect_coordinates).
ValueId reflected(Call& c, ValueId x, double low, double span) {
  if (span == 0) return times(c, x, 0);
  x = plus(c, x, -low);
  x = c.op(OpKind::kWhere, {c.binary(OpKind::kLt, x, 0), c.op(OpKind::kNeg, {x}), x});
  const ValueId divisor = c.scalar(span, c.dtype(x));
  const ValueId rest = c.op(OpKind::kFmod, {x, divisor});
  const ValueId flips = c.op(OpKind::kFloor, {c.op(OpKind::kDiv, {c.op(OpKind::kDetach, {x}), divisor})});
  const ValueId odd = c.binary(OpKind::kNe, c.op(OpKind::kRemainder, {flips, c.scalar(2, c.dtype(x))}), 0);
  return c.op(OpKind::kWhere, {odd, plus(c, times(c, rest, -1), span + low), plus(c, rest, low)});
}

// A place along an axis of that extent, inside of it by what the padding says.
ValueId inside(Call& c, ValueId x, int64_t extent, Beyond padding, bool corners) {
  const auto last = static_cast<double>(extent - 1);
  if (padding == Beyond::kZeros) return x;
  if (padding != Beyond::kBorder) x = corners ? reflected(c, x, 0, last) : reflected(c, x, -0.5, last + 1);
  return clamped_inside(c.builder(), x, 0, last);
}

// An element along an axis that a place reads, as a float, and its weight; invalid: 1.
struct Tap {
  ValueId index, weight;
};

std::vector<Tap> linear_taps(Call& c, ValueId x) {
  const ValueId first = c.op(OpKind::kFloor, {x}), part = c.binary(OpKind::kSub, x, first);
  return {{first, plus(c, times(c, part, -1), 1)}, {plus(c, first, 1), part}};
}
// Keys, Cubic convolution interpolation, with a = -3/4.
std::vector<Tap> cubic_taps(Call& c, ValueId x, int64_t extent, Beyond padding, bool corners) {
  constexpr double kA = -0.75;
  const ValueId first = c.op(OpKind::kFloor, {x}), part = c.binary(OpKind::kSub, x, first);
  const auto near = [&](ValueId d) {  // ((a + 2) d - (a + 3)) d d + 1
    return plus(c, c.binary(OpKind::kMul, c.binary(OpKind::kMul, plus(c, times(c, d, kA + 2), -kA - 3), d), d), 1);
  };
  const auto far = [&](ValueId d) {  // ((a d - 5 a) d + 8 a) d - 4 a
    const ValueId inner = plus(c, c.binary(OpKind::kMul, plus(c, times(c, d, kA), -5 * kA), d), 8 * kA);
    return plus(c, c.binary(OpKind::kMul, inner, d), -4 * kA);
  };
  const ValueId rest = plus(c, times(c, part, -1), 1);
  const ValueId weights[] = {far(plus(c, part, 1)), near(part), near(rest), far(plus(c, rest, 1))};
  std::vector<Tap> out;
  for (int i = 0; i < 4; ++i) out.push_back({inside(c, plus(c, first, i - 1), extent, padding, corners), weights[i]});
  return out;
}

// The sum over the elements around each place, those along each axis with those along the others.
ValueId grid_sample(Call& c, ValueId x, ValueId grid, Between mode, Beyond padding, bool corners) {
  const Extents shape = c.shape(x), of_grid = c.shape(grid);
  const size_t axes = shape.size() - 2;
  int64_t places = 1;
  for (size_t i = 1; i + 1 < of_grid.size(); ++i) places = c.product(places, of_grid[i]);
  const ValueId flat = c.reshape(grid, {shape[0], places, static_cast<int64_t>(axes)});
  std::vector<std::vector<Tap>> taps;  // along each axis
  for (size_t i = 0; i < axes; ++i) {
    const int64_t extent = shape[i + 2], at = static_cast<int64_t>(axes - 1 - i);
    const ValueId given = c.squeeze(c.slice(flat, 2, at, at + 1), 2);
    const double half = static_cast<double>(corners ? extent - 1 : extent) / 2;
    ValueId place = plus(c, times(c, given, half), static_cast<double>(extent - 1) / 2);
    // None that is no number, or whose weights would be none.
    place = c.op(OpKind::kWhere,
                 {c.binary(OpKind::kLt, c.op(OpKind::kAbs, {place}), 0x1p31), place, c.scalar(-100, c.dtype(x))});
    if (mode == Between::kCubic) {
      taps.push_back(cubic_taps(c, place, extent, padding, corners));
      continue;
    }
    place = inside(c, place, extent, padding, corners);
    if (mode == Between::kLinear) taps.push_back(linear_taps(c, place));
    else taps.push_back({{c.op(OpKind::kRound, {place}), ValueId()}});
  }
  int64_t elements = 1;
  for (size_t i = 0; i < axes; ++i) elements = c.product(elements, shape[i + 2]);
  const ValueId source = c.reshape(x, {shape[0], shape[1], elements});
  const ValueId zero = c.scalar(0, c.dtype(x));
  ValueId total;
  std::vector<size_t> chosen(axes, 0);
  for (bool more = true; more && c.status().ok();) {
    ValueId index, weight, valid;
    for (size_t i = 0; i < axes; ++i) {
      const Tap& tap = taps[i][chosen[i]];
      const ValueId fixed = c.op(OpKind::kDetach, {tap.index});
      const double last = static_cast<double>(shape[i + 2] - 1);
      const ValueId is_some =
          c.op(OpKind::kLogicalAnd, {c.binary(OpKind::kGe, fixed, 0.0), c.binary(OpKind::kLe, fixed, last)});
      const ValueId read = c.cast(c.op(OpKind::kWhere, {is_some, fixed, zero}), DType::kI64);
      index = i == 0 ? read
                     : c.binary(OpKind::kAdd, c.binary(OpKind::kMul, index, static_cast<double>(shape[i + 2])), read);
      valid = i == 0 ? is_some : c.op(OpKind::kLogicalAnd, {valid, is_some});
      if (tap.weight.valid()) weight = weight.valid() ? c.binary(OpKind::kMul, weight, tap.weight) : tap.weight;
    }
    if (!weight.valid()) weight = c.filled({shape[0], places}, 1, c.dtype(x));
    weight = c.unsqueeze(c.op(OpKind::kWhere, {valid, weight, zero}), 1);
    const ValueId wide = c.expand(c.unsqueeze(index, 1), {shape[0], shape[1], places});
    const ValueId term = c.binary(OpKind::kMul, c.op(OpKind::kGather, {source, wide}, ir::DimAttrs{2}), weight);
    total = total.valid() ? c.binary(OpKind::kAdd, total, term) : term;
    more = false;
    for (size_t i = axes; i-- > 0 && !more;) {
      chosen[i] = (chosen[i] + 1) % taps[i].size();
      more = chosen[i] != 0;
    }
  }
  std::vector<int64_t> result(of_grid.begin(), of_grid.end() - 1);
  result.insert(result.begin() + 1, shape[1]);
  return c.reshape(total, std::move(result));
}

}  // namespace

void import_grid_sample(NodeImport& n) {
  const ValueId x = n.in(0), grid = n.in(1);
  const std::string mode = n.string_attr("mode", "linear"), padding = n.string_attr("padding_mode", "zeros");
  const bool corners = n.int_attr("align_corners", 0) != 0;
  if (!n.ok()) return;
  const Between between = mode == "linear" || mode == "bilinear" ? Between::kLinear
                          : mode == "nearest"                    ? Between::kNearest
                                                                 : Between::kCubic;
  if (between == Between::kCubic && mode != "cubic" && mode != "bicubic")
    return n.refuse("its mode '" + mode.substr(0, 40) + "' does not exist");
  if (padding != "zeros" && padding != "border" && padding != "reflection")
    return n.refuse("its padding_mode '" + padding.substr(0, 40) + "' does not exist");
  const Beyond beyond = padding == "zeros"    ? Beyond::kZeros
                        : padding == "border" ? Beyond::kBorder
                                              : Beyond::kReflection;
  const Extents shape = n.shape(x), of_grid = n.shape(grid);
  const auto axes = static_cast<int64_t>(shape.size()) - 2;
  if (axes < 2 || axes > 3 || of_grid.size() != shape.size() || of_grid.back() != axes || of_grid[0] != shape[0] ||
      n.type(x).elements() == 0)
    return n.refuse("it wants images of two or three axes, and places of as many numbers");
  if (between == Between::kCubic && axes != 2) return n.refuse("cubic samples of three axes are not supported");
  if (!is_floating(n.dtype(x)) || n.dtype(grid) != n.dtype(x)) return n.refuse("it samples integers");
  Call c = n.as_call();
  n.set_all(n.finish(c, aten::Item::of_tensor(grid_sample(c, x, grid, between, beyond, corners))));
}

}  // namespace piper::frontend::onnx
