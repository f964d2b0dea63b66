// Images on another grid: Resize and AffineGrid.
#include <algorithm>
#include <cmath>

#include "compiler/frontend/onnx/ops.h"

namespace piper::frontend::onnx {
namespace {

struct Resampling {
  std::string mode, nearest_mode, coordinates, policy;
  double cubic = -0.75, outside = 0;
  bool antialias = false, exclude_outside = false;
};

// One axis: how many elements it has and gets, and which part of it.
struct Axis {
  int64_t dim = 0, from = 0, to = 0;
  double scale = 1, begin = 0, end = 1;
};

// Where an element of the result lies among those of the operand.
double place_of(const Resampling& r, const Axis& a, int64_t element) {
  const auto i = static_cast<double>(element), last = static_cast<double>(a.from - 1);
  const double width = a.scale * static_cast<double>(a.from);  // of the result, before it is made whole
  if (r.coordinates == "align_corners") return width == 1 ? 0 : i * last / (width - 1);
  if (r.coordinates == "asymmetric") return i / a.scale;
  if (r.coordinates == "tf_crop_and_resize")
    return a.begin * last + (a.to > 1 ? i * (a.end - a.begin) * last / (width - 1) : (a.end - a.begin) * last / 2);
  if (r.coordinates == "pytorch_half_pixel" && a.to == 1) return 0;
  const double half = (i + 0.5) / a.scale - 0.5;
  if (r.coordinates != "half_pixel_symmetric") return half;
  return half + static_cast<double>(a.from) / 2 * (1 - static_cast<double>(a.to) / width);
}

int64_t nearest(const Resampling& r, double x) {
  const double below = std::floor(x), part = x - below;
  const bool up = part > 0 && (r.nearest_mode == "ceil" || (r.nearest_mode == "round_prefer_ceil" && part >= 0.5) ||
                               (r.nearest_mode == "round_prefer_floor" && part > 0.5));
  return whole_number(below) + (up ? 1 : 0);
}

// The weight of an element at a distance.
double weight(const Resampling& r, double d) {
  d = std::abs(d);
  if (r.mode == "linear") return std::max(0.0, 1 - d);
  if (d <= 1) return ((r.cubic + 2) * d - (r.cubic + 3)) * d * d + 1;
  return d < 2 ? ((r.cubic * d - 5 * r.cubic) * d + 8 * r.cubic) * d - 4 * r.cubic : 0;
}

// One row of the matrix of an axis: what elements the one at `place` is made of. Those outside count as the one at the
// border, or not at all.
void add_weights(const Resampling& r, const Axis& a, double place, float* row) {
  const double narrow = r.antialias ? std::min(a.scale, 1.0) : 1, support = (r.mode == "linear" ? 1 : 2) / narrow;
  double whole = 0, counted = 0;
  std::vector<double> sums(static_cast<size_t>(a.from), 0);
  for (int64_t at = whole_number(std::floor(place - support)); static_cast<double>(at) <= place + support; ++at) {
    const double w = weight(r, (static_cast<double>(at) - place) * narrow);
    whole += w;
    if (r.exclude_outside && (at < 0 || at >= a.from)) continue;
    counted += w;
    sums[static_cast<size_t>(std::clamp<int64_t>(at, 0, a.from - 1))] += w;
  }
  const double divisor = r.exclude_outside ? counted : r.antialias ? whole : 1;
  for (size_t i = 0; i < sums.size(); ++i) row[i] = divisor == 0 ? 0 : static_cast<float>(sums[i] / divisor);
}

ValueId resampled(NodeImport& n, ValueId x, const Resampling& r, const Axis& a) {
  if (!n.may_make(a.to * 8)) return x;
  std::vector<double> places;
  std::vector<bool> outside;
  for (int64_t i = 0; i < a.to; ++i) {
    places.push_back(place_of(r, a, i));
    outside.push_back(r.coordinates == "tf_crop_and_resize" &&
                      (places.back() < 0 || places.back() > static_cast<double>(a.from - 1)));
  }
  ValueId y;
  if (r.mode == "nearest") {
    std::vector<int64_t> index;
    for (const double place : places) index.push_back(std::clamp<int64_t>(nearest(r, place), 0, a.from - 1));
    y = n.index_select(x, a.dim, index);
  } else {
    const std::optional<int64_t> count = count_elements({a.to, a.from});
    if (!count || !n.may_make(*count * 4)) return x;
    std::vector<float> weights(static_cast<size_t>(*count));
    for (size_t i = 0; i < places.size(); ++i)
      add_weights(r, a, places[i], weights.data() + i * static_cast<size_t>(a.from));
    const ValueId matrix = n.cast(n.constant_f32({a.to, a.from}, weights), n.dtype(x));
    const ValueId last = n.call("aten.transpose.int", {x, a.dim, -1});
    y = n.call("aten.transpose.int", {n.emit(OpKind::kLinear, {last, matrix}), a.dim, -1});
  }
  if (std::find(outside.begin(), outside.end(), true) == outside.end()) return y;
  std::vector<int64_t> shape(static_cast<size_t>(n.rank(x)), 1);
  shape[static_cast<size_t>(a.dim)] = a.to;
  return n.emit(OpKind::kWhere, {n.constant_bool(shape, outside), n.scalar_like(r.outside, x), y});
}

bool is_one_of(const std::string& word, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(), [&](const char* w) { return word == w; });
}

Resampling read_resampling(NodeImport& n) {
  Resampling r;
  r.mode = n.string_attr("mode", "nearest");
  r.nearest_mode = n.string_attr("nearest_mode", "round_prefer_floor");
  r.coordinates = n.string_attr("coordinate_transformation_mode", "half_pixel");
  r.policy = n.string_attr("keep_aspect_ratio_policy", "stretch");
  r.cubic = n.float_attr("cubic_coeff_a", -0.75);
  r.outside = n.float_attr("extrapolation_value", 0);
  r.antialias = n.int_attr("antialias", 0) != 0;
  r.exclude_outside = n.int_attr("exclude_outside", 0) != 0;
  if (!is_one_of(r.mode, {"nearest", "linear", "cubic"}) ||
      !is_one_of(r.nearest_mode, {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}) ||
      !is_one_of(r.coordinates, {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                                 "asymmetric", "tf_crop_and_resize"}) ||
      !is_one_of(r.policy, {"stretch", "not_larger", "not_smaller"}))
    n.refuse("one of its modes does not exist");
  if (r.mode == "nearest" && (r.antialias || r.exclude_outside))
    n.refuse("antialias or exclude_outside of the nearest element");
  return r;
}

// What `sizes` or `scales` say of the axes.
void read_extents(NodeImport& n, const Resampling& r, std::vector<Axis>& axes) {
  constexpr int64_t kMost = int64_t{1} << 31;
  const bool has_sizes = n.has(3);
  const std::vector<int64_t> sizes = has_sizes ? n.ints(n.in(3), "sizes") : std::vector<int64_t>{};
  const std::optional<std::vector<double>> scales =
      has_sizes ? std::nullopt : n.known_numbers(n.in(2), static_cast<int64_t>(axes.size()));
  if (!n.ok()) return;
  if (!has_sizes && !scales) return n.refuse("its scales are not known when the model is compiled", "P0323");
  if ((has_sizes ? sizes.size() : scales->size()) != axes.size()) return n.refuse("it wants a number for each axis");
  double common = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    Axis& a = axes[i];
    if (a.from < 1) return n.refuse("its operand has no elements");
    a.scale = has_sizes ? static_cast<double>(sizes[i]) / static_cast<double>(a.from) : (*scales)[i];
    common = i == 0 ? a.scale : r.policy == "not_larger" ? std::min(common, a.scale) : std::max(common, a.scale);
  }
  for (Axis& a : axes) {
    if (has_sizes && r.policy != "stretch") a.scale = common;
    const double width = a.scale * static_cast<double>(a.from);
    if (!(width >= 1 - 1e-9 && width < static_cast<double>(kMost)))
      return n.refuse("its result has no elements, or too many");
    a.to = static_cast<int64_t>(width + (has_sizes ? 0.5 : 0));
  }
}

}  // namespace

// Axis by axis: an element is the nearest one, or a product with a matrix of weights.
void import_resize(NodeImport& n) {
  ValueId x = n.in(0);
  const Resampling r = read_resampling(n);
  const int64_t rank = n.rank(x);
  std::vector<int64_t> dims = n.ints_attr("axes", {});
  if (dims.empty())
    for (int64_t d = 0; d < rank; ++d) dims.push_back(d);
  std::vector<Axis> axes;
  for (const int64_t d : dims) {
    Axis& a = axes.emplace_back();
    a.dim = n.axis(d, rank);
    if (n.ok()) a.from = n.shape(x)[static_cast<size_t>(a.dim)];
  }
  if (n.ok()) read_extents(n, r, axes);
  if (!n.ok()) return;
  if (r.coordinates == "tf_crop_and_resize") {
    const std::optional<std::vector<double>> roi = n.known_numbers(n.in(1), 2 * static_cast<int64_t>(axes.size()));
    if (!roi || roi->size() != 2 * axes.size())
      return n.refuse("its region of interest is not known when the model is compiled", "P0323");
    for (size_t i = 0; i < axes.size(); ++i) {
      axes[i].begin = (*roi)[i];
      axes[i].end = (*roi)[i + axes.size()];
    }
  }
  if (r.mode != "nearest" && !is_floating(n.dtype(x))) return n.refuse("it interpolates integers");
  for (const Axis& a : axes) {
    if (a.to == a.from && std::abs(a.scale - 1) < 1e-9 && a.begin == 0 && a.end == 1) continue;
    if (r.mode == "cubic" && r.coordinates == "pytorch_half_pixel" && a.to == 1)
      return n.refuse("cubic weights for one element alone, of which ONNX says two things");
    x = resampled(n, x, r, a);
  }
  n.set_all({x});
}

// [N, axes, axes + 1] times the places of an image and 1, the last axis first: [N, .., axes].
void import_affine_grid(NodeImport& n) {
  const ValueId theta = n.in(0);
  const Extents size = n.ints(n.in(1), "size"), shape = n.shape(theta);
  const bool corners = n.int_attr("align_corners", 0) != 0;
  if (!n.ok()) return;
  if (size.size() < 4 || size.size() > 5 || shape.size() != 3 || size[0] != shape[0])
    return n.refuse("its size does not fit");
  const size_t axes = size.size() - 2;
  std::vector<int64_t> image(size.begin() + 2, size.end());
  const std::optional<int64_t> places = count_elements(image);
  if (!places || !n.may_make(*places * 16)) return n.refuse("its size is negative or too large");
  std::vector<float> base;
  for (int64_t at = 0; at < *places; ++at) {
    int64_t rest = at;
    for (size_t i = axes; i-- > 0; rest /= image[i]) {
      const auto extent = static_cast<double>(image[i]), step = static_cast<double>(rest % image[i]);
      const double inner = corners ? (extent > 1 ? 2 * step / (extent - 1) - 1 : 0) : (2 * step + 1) / extent - 1;
      base.push_back(static_cast<float>(inner));
    }
    base.push_back(1);
  }
  const ValueId grid = n.cast(n.constant_f32({*places, static_cast<int64_t>(axes) + 1}, base), n.dtype(theta));
  image.insert(image.begin(), size[0]);
  image.push_back(static_cast<int64_t>(axes));
  n.set_all({n.reshape(n.emit(OpKind::kMatmul, {grid, n.call("aten.transpose.int", {theta, 1, 2})}), image)});
}

}  // namespace piper::frontend::onnx
