// ATen calls that pool over two axes.
#include "compiler/frontend/aten/table.h"

namespace piper::frontend::aten {
namespace {

Item made(ValueId v) { return Item::of_tensor(v); }

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

Item avg_pool(Call& c, size_t axes) {
  const ValueId x = c.tensor("self");
  ir::PoolAttrs attrs = window(c, axes);
  const bool padded = attrs.padding[0] != 0 || attrs.padding[1] != 0;
  if ((padded || attrs.ceil_mode) && !c.flag("count_include_pad"))
    return c.fail("average pooling with padding is supported with count_include_pad=True");
  const ValueId y = c.op(OpKind::kAvgPool2d, {as_images(c, x, axes)}, std::move(attrs));
  return made(like_operand(c, y, x, axes));
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

// Output extents that divide the input's: windows of equal size without overlap. One pixel is a mean.
Item adaptive_avg_pool2d(Call& c) {
  const ValueId x = c.tensor("self");
  const std::vector<int64_t> out = c.ints("output_size", 2);
  const int64_t r = c.rank(x);
  if (r < 3) return c.fail("adaptive_avg_pool2d needs two spatial axes");
  if (out[0] == 1 && out[1] == 1) return made(c.mean(x, {r - 2, r - 1}, true));
  ir::PoolAttrs attrs;
  for (int64_t i = 0; i < 2; ++i) {
    const int64_t n = c.extent(x, r - 2 + i), m = out[static_cast<size_t>(i)];
    if (m < 1 || n % m != 0)
      return c.fail("adaptive_avg_pool2d is supported where the output extents divide the input's");
    attrs.kernel.push_back(n / m);
  }
  attrs.stride = attrs.kernel;
  attrs.padding = {0, 0};
  attrs.dilation = {1, 1};
  return made(c.op(OpKind::kAvgPool2d, {x}, std::move(attrs)));
}

}  // namespace piper::frontend::aten
