// ATen calls that put a grid of another size over images.
#include <cmath>
#include <cstring>

#include "compiler/frontend/aten/table.h"

namespace piper::frontend::aten {
namespace {

// Every element of the axis `factor` times.
ValueId repeated(Call& c, ValueId x, int64_t axis, int64_t factor) {
  if (factor == 1) return x;
  Extents merged = c.shape(x);
  ValueId y = c.unsqueeze(x, axis + 1);
  Extents wide = c.shape(y);
  wide[static_cast<size_t>(axis) + 1] = factor;
  merged[static_cast<size_t>(axis)] = c.product(merged[static_cast<size_t>(axis)], factor);
  return c.reshape(c.expand(y, std::move(wide)), std::move(merged));
}

// A weight of an element at a distance from the middle of what it is weighed for.
double linear_weight(double x) { return std::max(0.0, 1 - std::abs(x)); }
double cubic_weight(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * kA : 0;
}

// f32 [outside, inside]: output i is the mean, weighted, of the inputs around `scale` (i + 1/2), which a reduction
// widens by its scale (ATen's HelperInterpBase::_compute_indices_min_size_weights_aa).
ValueId smoothed(Call& c, int64_t inside, int64_t outside, double scale, bool cubic) {
  const double wide = std::max(scale, 1.0), support = (cubic ? 2 : 1) * wide;
  std::vector<float> matrix(static_cast<size_t>(c.product(inside, outside)), 0);
  for (int64_t i = 0; i < outside; ++i) {
    const double middle = scale * (static_cast<double>(i) + 0.5);
    const int64_t first = std::max<int64_t>(whole_number(std::floor(middle - support + 0.5)), 0);
    const int64_t end = std::min(whole_number(std::floor(middle + support + 0.5)), inside);
    std::vector<double> weights;
    double total = 0;
    for (int64_t j = first; j < end; ++j) {
      const double x = (static_cast<double>(j) - middle + 0.5) / wide;
      weights.push_back(cubic ? cubic_weight(x) : linear_weight(x));
      total += weights.back();
    }
    for (int64_t j = first; j < end && total != 0; ++j)
      matrix[static_cast<size_t>(i * inside + j)] = static_cast<float>(weights[static_cast<size_t>(j - first)] / total);
  }
  std::vector<std::byte> bytes(matrix.size() * sizeof(float));
  if (!bytes.empty()) std::memcpy(bytes.data(), matrix.data(), bytes.size());
  return c.constant(
      {{DType::kF32, {outside, inside}}, std::make_shared<const std::vector<std::byte>>(std::move(bytes))});
}

// Each of the last two axes times a matrix. `scales`: how much larger the result is, where the call says it.
Item smoothed(Call& c, ValueId x, const std::vector<int64_t>& sizes, const std::vector<double>& scales) {
  if (c.rank(x) != 4) return c.fail("images of four axes are resampled");
  for (size_t i = 2; i-- > 0;) {
    const int64_t axis = static_cast<int64_t>(i) + 2, inside = c.extent(x, axis), outside = sizes[i];
    if (inside < 1 || outside < 1) return c.fail("resampling to nothing");
    if (!c.may_make(c.product(inside, outside))) return Item::none();
    double scale = scales[i] > 0 ? 1 / scales[i] : static_cast<double>(inside) / static_cast<double>(outside);
    if (c.flag("align_corners"))
      scale = outside > 1 ? static_cast<double>(inside - 1) / static_cast<double>(outside - 1) : 0;
    if (inside == outside && scale == 1) continue;
    const ValueId matrix = c.cast(smoothed(c, inside, outside, scale, c.kind() == OpKind::kPowScalar), c.dtype(x));
    x = c.transpose(c.op(OpKind::kLinear, {c.transpose(x, axis, -1), matrix, ValueId()}), axis, -1);
  }
  return made(x);
}

}  // namespace

// With antialiasing: of kind kLinear linear, of kPowScalar cubic.
Item upsample_smooth(Call& c) {
  const auto scale = [&](std::string_view name) { return c.has(name) ? c.real(name) : 0.0; };
  return smoothed(c, c.tensor("self"), c.ints("output_size", 2), {scale("scales_h"), scale("scales_w")});
}
Item upsample_smooth_by(Call& c) {
  const ValueId x = c.tensor("input");
  std::vector<int64_t> sizes(2, 0);
  std::vector<double> scales(2, 0);
  const Item& factors = c.arg("scale_factors");
  if (c.has("output_size")) sizes = c.ints("output_size", 2);
  else if (factors.list.size() != 2) return c.fail("an upsampling without a size");
  for (size_t i = 0; i < 2 && factors.list.size() == 2; ++i) {
    scales[i] = factors.list[i].number();
    if (!c.has("output_size"))
      sizes[i] = whole_number(static_cast<double>(c.extent(x, static_cast<int64_t>(i) + 2)) * scales[i]);
  }
  return smoothed(c, x, sizes, scales);
}

// [N, C, ..]: output element i is input element floor(i * in / out), so by whole factors each element is repeated.
Item upsample_nearest(Call& c) {
  ValueId x = c.tensor("self");
  const auto n = static_cast<size_t>(std::max<int64_t>(c.rank(x), 2) - 2);
  std::vector<int64_t> sizes;
  if (c.has("output_size")) sizes = c.ints("output_size", n);
  const Item& factors = c.arg("scale_factors");
  if (sizes.empty() && factors.list.size() != n) return c.fail("an upsampling without a size");
  for (size_t i = 0; i < n; ++i) {
    const auto axis = static_cast<int64_t>(i) + 2;
    const int64_t extent = c.extent(x, axis);
    const double factor = sizes.empty()
                              ? factors.list[i].number()
                              : static_cast<double>(sizes[i]) / static_cast<double>(std::max<int64_t>(extent, 1));
    const auto whole = static_cast<int64_t>(factor < 1 || factor > 4096 ? 0 : factor);
    if (whole < 1 || static_cast<double>(whole) != factor) return c.fail("upsampling is supported by whole factors");
    x = repeated(c, x, axis, whole);
  }
  return made(x);
}

// By a size, and where the call says it by factors, which it goes by.
Item upsample_nearest_to(Call& c) {
  for (const std::string_view factor : {"scale_factors", "scales_w"})
    if (c.has(factor) && c.real(factor) != std::floor(c.real(factor)))
      return c.fail("upsampling is supported by whole factors");
  return upsample_nearest(c);
}

}  // namespace piper::frontend::aten
