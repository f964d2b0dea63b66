// ATen calls that pool over one axis or two.
#include <algorithm>

#include "compiler/frontend/aten/table.h"
#include "compiler/ir/shapes.h"

namespace piper::frontend::aten {
namespace {

// Windows over the last `axes` axes; one axis becomes the second of two, the first having extent 1.
std::vector<int64_t> over_two(Call& c, std::string_view name, size_t axes, int64_t lone) {
  std::vector<int64_t> out = c.ints(name, axes);
  if (axes == 1) out.insert(out.begin(), lone);
  return out;
}
ir::PoolAttrs window(Call& c, size_t axes) {
  ir::PoolAttrs attrs;
  attrs.kernel = over_two(c, "kernel_size", axes, 1);
  const Item& stride = c.arg("stride");
  attrs.stride =
      stride.is_none() || (stride.is_list() && stride.list.empty()) ? attrs.kernel : over_two(c, "stride", axes, 1);
  attrs.padding = over_two(c, "padding", axes, 0);
  attrs.dilation = {1, 1};
  attrs.ceil_mode = c.flag("ceil_mode");
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
  attrs.dilation = over_two(c, "dilation", axes, 1);
  std::vector<ValueId> r = c.ops(OpKind::kMaxPool2d, {as_images(c, x, axes)}, std::move(attrs));
  for (ValueId& v : r) v = like_operand(c, v, x, axes);
  return r;
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

Item avg_pool(Call& c, size_t axes) {
  const ValueId x = c.tensor("self"), images = as_images(c, x, axes);
  const ir::PoolAttrs attrs = window(c, axes);
  ValueId y = c.op(OpKind::kAvgPool2d, {images}, attrs);
  if (c.flag("count_include_pad")) return made(like_operand(c, y, x, axes));
  for (size_t i = 0; i < 2; ++i) {
    const int64_t axis = static_cast<int64_t>(i) + 2, windows = c.extent(y, axis);
    const Covered all = covered(c.extent(images, axis), windows, attrs, i);
    if (all.padded == all.own) continue;
    const std::vector<int64_t> shape = i == 0 ? std::vector<int64_t>{windows, 1} : std::vector<int64_t>{windows};
    const auto counts = [&](const std::vector<int64_t>& of) {
      return c.cast(c.builder().constant_i64(shape, of), c.dtype(y));
    };
    y = c.binary(OpKind::kMul, y, c.binary(OpKind::kDiv, counts(all.padded), counts(all.own)));
  }
  return made(like_operand(c, y, x, axes));
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
  const int64_t first = c.rank(x) - static_cast<int64_t>(axes);
  if (first < 1) return c.fail("adaptive pooling needs channels before the axes that it pools");
  std::vector<int64_t> pooled;
  ir::PoolAttrs attrs{{1, 1}, {1, 1}, {0, 0}, {1, 1}, false};
  bool one = true, divides = true;
  for (size_t i = 0; i < axes; ++i) {
    pooled.push_back(first + static_cast<int64_t>(i));
    const int64_t n = c.extent(x, pooled[i]);
    if (out[i] < 1) return c.fail("adaptive pooling to nothing");
    one = one && out[i] == 1;
    divides = divides && n % out[i] == 0;
    attrs.kernel[2 - axes + i] = n / out[i];
  }
  if (one) return made(c.mean(x, pooled, true));
  if (!divides) {
    for (size_t i = 0; i < axes; ++i) x = averaged(c, x, pooled[i], out[i]);
    return made(x);
  }
  attrs.stride = attrs.kernel;
  return made(like_operand(c, c.op(OpKind::kAvgPool2d, {as_images(c, x, axes)}, attrs), x, axes));
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
Item avg_pool2d(Call& c) {
  if (c.has("divisor_override")) return c.fail("avg_pool2d with divisor_override is not supported");
  return avg_pool(c, 2);
}

Item adaptive_avg_pool1d(Call& c) { return adaptive_avg_pool(c, 1); }
Item adaptive_avg_pool2d(Call& c) { return adaptive_avg_pool(c, 2); }

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
