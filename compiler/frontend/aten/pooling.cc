// ATen calls that pool over one axis, two or three.
#include <algorithm>
#include <optional>

#include "compiler/frontend/aten/table.h"
#include "compiler/ir/shapes.h"

namespace piper::frontend::aten {
namespace {

ir::PoolAttrs window(Call& c, size_t axes) {
  ir::PoolAttrs attrs;
  attrs.kernel = c.ints("kernel_size", axes);
  const Item& stride = c.arg("stride");
  attrs.stride = stride.is_none() || (stride.is_list() && stride.list.empty()) ? attrs.kernel : c.ints("stride", axes);
  attrs.padding = c.ints("padding", axes);
  attrs.dilation.assign(axes, 1);
  attrs.ceil_mode = c.flag("ceil_mode");
  return attrs;
}
// One axis becomes the second of two, the first having extent 1.
ir::PoolAttrs over_two(ir::PoolAttrs attrs) {
  for (std::vector<int64_t>* v : {&attrs.kernel, &attrs.stride, &attrs.dilation}) v->insert(v->begin(), 1);
  attrs.padding.insert(attrs.padding.begin(), 0);
  return attrs;
}

// The operand as [N, C, H, W], whatever axes it lacks in front or between.
ValueId as_images(Call& c, ValueId x, size_t axes) {
  if (axes == 1) x = c.unsqueeze(x, -2);
  return c.rank(x) == 3 ? c.unsqueeze(x, 1) : x;
}
// y in the axes of the call's operand.
ValueId like_operand(Call& c, ValueId y, ValueId x, size_t axes) {
  if (c.rank(x) == static_cast<int64_t>(axes) + 1) y = c.squeeze(y, 1);
  return axes == 1 ? c.squeeze(y, -2) : y;
}

std::vector<ValueId> max_pool(Call& c, size_t axes) {
  const ValueId x = c.tensor("self");
  ir::PoolAttrs attrs = window(c, axes);
  attrs.dilation = c.ints("dilation", axes);
  std::vector<ValueId> r =
      c.ops(OpKind::kMaxPool2d, {as_images(c, x, axes)}, axes == 1 ? over_two(std::move(attrs)) : std::move(attrs));
  for (ValueId& v : r) v = like_operand(c, v, x, axes);
  return r;
}

// Means of windows over the last axes, as kAvgPool2d has them; of three the first is pooled by itself.
ValueId pooled_evenly(Call& c, ValueId x, const ir::PoolAttrs& attrs) {
  const size_t axes = attrs.kernel.size();
  if (axes < 3) {
    ir::PoolAttrs two = axes == 1 ? over_two(attrs) : attrs;
    return like_operand(c, c.op(OpKind::kAvgPool2d, {as_images(c, x, axes)}, std::move(two)), x, axes);
  }
  const auto part = [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
    ir::PoolAttrs out;
    const auto of = [&](const std::vector<int64_t>& v) {
      return std::vector<int64_t>(v.begin() + begin, v.begin() + end);
    };
    out.kernel = of(attrs.kernel);
    out.stride = of(attrs.stride);
    out.padding = of(attrs.padding);
    out.dilation = of(attrs.dilation);
    out.ceil_mode = attrs.ceil_mode;
    return out;
  };
  const bool lone = c.rank(x) == 4;
  if (lone) x = c.unsqueeze(x, 0);
  const Extents s = c.shape(x);
  x = pooled_evenly(c, c.reshape(x, {s[0], c.product(s[1], s[2]), s[3], s[4]}), part(1, 3));
  const int64_t rows = c.extent(x, 2), columns = c.extent(x, 3);
  ir::PoolAttrs depth = over_two(part(0, 1));  // [.., D, H W]: the axis is the first of two
  for (std::vector<int64_t>* v : {&depth.kernel, &depth.stride, &depth.dilation, &depth.padding})
    std::swap((*v)[0], (*v)[1]);
  x = c.op(OpKind::kAvgPool2d, {c.reshape(x, {s[0], s[1], s[2], c.product(rows, columns)})}, std::move(depth));
  x = c.reshape(x, {s[0], s[1], c.extent(x, 2), rows, columns});
  return lone ? c.squeeze(x, 0) : x;
}

// By what a mean of whole windows along one axis is multiplied to become that of the elements inside of the operand:
// how much of the padded operand a window covers, and how much of the operand.
struct Covered {
  std::vector<int64_t> padded, own;
};
Covered covered(int64_t extent, int64_t windows, const ir::PoolAttrs& attrs, size_t i) {
  Covered out;
  for (int64_t w = 0; w < windows; ++w) {
    const int64_t begin = w * attrs.stride[i] - attrs.padding[i],
                  end = std::min(begin + attrs.kernel[i], extent + attrs.padding[i]);
    out.padded.push_back(end - begin);
    out.own.push_back(std::min(end, extent) - std::max<int64_t>(begin, 0));
  }
  return out;
}

// Means of means over the last axes, two by two: windows of several axes are products of those of each. `divisor`
// takes the place of how many elements a window has.
Item avg_pool(Call& c, size_t axes, std::optional<int64_t> divisor = std::nullopt) {
  ValueId y = c.tensor("self");
  const int64_t first = c.rank(y) - static_cast<int64_t>(axes);
  if (first < 1) return c.fail("pooling needs channels before the axes that it pools");
  const ir::PoolAttrs attrs = window(c, axes);
  const Extents whole = c.shape(y);
  y = pooled_evenly(c, y, attrs);
  const bool counts_padding = c.flag("count_include_pad");
  for (size_t i = 0; i < axes; ++i) {
    const int64_t axis = first + static_cast<int64_t>(i), windows = c.extent(y, axis);
    const Covered all = covered(whole[static_cast<size_t>(axis)], windows, attrs, i);
    std::vector<int64_t> shape(axes - i, 1);
    shape[0] = windows;
    const auto counts = [&](const std::vector<int64_t>& of) {
      return c.cast(c.builder().constant_i64(shape, of), c.dtype(y));
    };
    if (divisor) y = c.binary(OpKind::kMul, y, counts(all.padded));
    else if (!counts_padding && all.padded != all.own)
      y = c.binary(OpKind::kMul, y, c.binary(OpKind::kDiv, counts(all.padded), counts(all.own)));
  }
  if (divisor) y = c.binary(OpKind::kDiv, y, static_cast<double>(*divisor));
  return made(y);
}

// Windows of several sizes along one axis: window j of m begins at floor(j n / m) and ends before
// ceil((j + 1) n / m). A product with a matrix of shares.
ValueId averaged(Call& c, ValueId x, int64_t dim, int64_t m) {
  const int64_t n = c.extent(x, dim);
  std::vector<int64_t> begins, ends, sizes;
  for (int64_t j = 0; j < m; ++j) {
    begins.push_back(j * n / m);
    ends.push_back(((j + 1) * n + m - 1) / m);
    sizes.push_back(ends.back() - begins.back());
  }
  const ValueId at = c.unsqueeze(c.range(0, n, 1, DType::kI64), 0);
  const ValueId inside = c.op(OpKind::kLogicalAnd, {c.op(OpKind::kGe, {at, c.builder().constant_i64({m, 1}, begins)}),
                                                    c.op(OpKind::kLt, {at, c.builder().constant_i64({m, 1}, ends)})});
  const ValueId shares =
      c.binary(OpKind::kDiv, c.cast(inside, c.dtype(x)), c.cast(c.builder().constant_i64({m, 1}, sizes), c.dtype(x)));
  const ValueId y = c.op(OpKind::kLinear, {c.transpose(x, dim, -1), shares, ValueId()});
  return c.transpose(y, dim, -1);
}

// One pixel is a mean; output extents that divide the input's make windows of equal size without overlap.
Item adaptive_avg_pool(Call& c, size_t axes) {
  ValueId x = c.tensor("self");
  const std::vector<int64_t> out = c.ints("output_size", axes);
  for (const int64_t extent : out)
    if (!c.may_make(extent, Call::kBytesOfOp)) return Item::none();
  const int64_t first = c.rank(x) - static_cast<int64_t>(axes);
  if (first < 1) return c.fail("adaptive pooling needs channels before the axes that it pools");
  std::vector<int64_t> pooled;
  ir::PoolAttrs attrs{{}, {}, std::vector<int64_t>(axes, 0), std::vector<int64_t>(axes, 1), false};
  bool one = true, divides = true;
  for (size_t i = 0; i < axes; ++i) {
    pooled.push_back(first + static_cast<int64_t>(i));
    const int64_t n = c.extent(x, pooled[i]);
    if (out[i] < 1) return c.fail("adaptive pooling to nothing");
    one = one && out[i] == 1;
    divides = divides && n % out[i] == 0;
    attrs.kernel.push_back(n / out[i]);
  }
  if (one) return made(c.mean(x, pooled, true));
  if (!divides) {
    for (size_t i = 0; i < axes; ++i) x = averaged(c, x, pooled[i], out[i]);
    return made(x);
  }
  attrs.stride = attrs.kernel;
  return made(pooled_evenly(c, x, attrs));
}

// The greatest of windows of several sizes, and their places in the last axes: the first of those that are as great. A
// window has its last element more than once, so that all are as long.
std::vector<Item> adaptive_max_pool(Call& c, size_t axes) {
  ValueId x = c.tensor("self"), places;
  const std::vector<int64_t> out = c.ints("output_size", axes);
  for (const int64_t extent : out) c.may_make(extent, Call::kBytesOfOp);
  const int64_t first = c.rank(x) - static_cast<int64_t>(axes);
  if (first < 1) c.fail("adaptive pooling needs channels before the axes that it pools");
  int64_t inner = 1;  // elements of the axes after
  for (size_t i = axes; i-- > 0 && c.status().ok();) {
    const int64_t axis = first + static_cast<int64_t>(i), n = c.extent(x, axis), m = out[i];
    if (n < 1 || m < 1) c.fail("adaptive pooling of nothing");
    if (!c.status().ok()) break;
    int64_t longest = 0;
    for (int64_t j = 0; j < m; ++j) longest = std::max(longest, ((j + 1) * n + m - 1) / m - j * n / m);
    std::vector<int64_t> at;
    for (int64_t j = 0; j < m; ++j)
      for (int64_t k = 0; k < longest; ++k) at.push_back(std::min(j * n / m + k, ((j + 1) * n + m - 1) / m - 1));
    const ValueId index = c.builder().constant_i64({m * longest}, at);
    const auto windows = [&](ValueId v) {
      Extents shape = c.shape(v);
      shape[static_cast<size_t>(axis)] = longest;
      shape.insert(shape.begin() + axis, m);
      return c.reshape(c.op(OpKind::kIndexSelect, {v, index}, ir::DimAttrs{axis}), std::move(shape));
    };
    const std::vector<ValueId> found = c.ops(OpKind::kMaxDim, {windows(x)}, ir::TopkAttrs{axis + 1, 1});
    if (found.size() != 2) break;
    Extents shape(static_cast<size_t>(c.rank(x)), 1);
    shape[static_cast<size_t>(axis)] = n;
    std::vector<int64_t> numbers(static_cast<size_t>(n));
    for (int64_t k = 0; k < n; ++k) numbers[static_cast<size_t>(k)] = k * inner;
    ValueId flat = c.expand(c.builder().constant_i64(shape, numbers), c.shape(x));
    if (places.valid()) flat = c.binary(OpKind::kAdd, flat, places);
    places = c.squeeze(c.op(OpKind::kGather, {windows(flat), found[1]}, ir::DimAttrs{axis + 1}), axis + 1);
    x = c.squeeze(found[0], axis + 1);
    inner = c.product(inner, n);
  }
  return {made(x), places.valid() ? made(places) : Item::none()};
}

}  // namespace

Item max_pool2d(Call& c) { return made(max_pool(c, 2)[0]); }
Item max_pool1d(Call& c) { return made(max_pool(c, 1)[0]); }
Item max_pool2d_results(Call& c) {
  const std::vector<ValueId> r = max_pool(c, 2);
  if (r.size() != 2) return c.fail("max_pool2d does not fit");
  return Item::of_list({made(r[0]), made(r[1])});
}

Item avg_pool1d(Call& c) { return avg_pool(c, 1); }
namespace {
Item avg_pool_divided(Call& c, size_t axes) {
  return avg_pool(c, axes, c.has("divisor_override") ? std::optional(c.integer("divisor_override")) : std::nullopt);
}
}  // namespace
Item avg_pool2d(Call& c) { return avg_pool_divided(c, 2); }
Item avg_pool3d(Call& c) { return avg_pool_divided(c, 3); }

Item adaptive_avg_pool1d(Call& c) { return adaptive_avg_pool(c, 1); }
Item adaptive_avg_pool2d(Call& c) { return adaptive_avg_pool(c, 2); }
Item adaptive_avg_pool3d(Call& c) { return adaptive_avg_pool(c, 3); }
Item adaptive_max_pool1d(Call& c) { return Item::of_list(adaptive_max_pool(c, 1)); }
Item adaptive_max_pool2d(Call& c) { return Item::of_list(adaptive_max_pool(c, 2)); }
Item adaptive_max_pool3d(Call& c) { return Item::of_list(adaptive_max_pool(c, 3)); }

// PyTorch's pooling to one element is a mean whose result is given a layout. That leaves the elements as they are; what
// other strides read depends on a layout of the operand that a model file does not hold.
Item as_strided(Call& c) {
  const ValueId x = c.tensor("self");
  const std::vector<int64_t> size = c.ints("size"), stride = c.ints("stride");
  const ir::Value& value = c.graph().value(x);
  const bool is_mean = value.kind == ir::ValueKind::kOpResult && c.graph().op(value.producer).kind == OpKind::kMean;
  bool keeps = is_mean && size == c.shape(x) && stride.size() == size.size() &&
               (!c.has("storage_offset") || c.integer("storage_offset") == 0);
  const ir::Shape dense = ir::row_major_strides(size);
  for (size_t d = 0; keeps && d < size.size(); ++d) keeps = size[d] == 1 || stride[d] == dense[d];
  if (!keeps) return c.fail("as_strided is supported where it states the layout of a mean, elements as they are");
  return made(x);
}

}  // namespace piper::frontend::aten
