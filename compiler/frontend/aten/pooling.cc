// ATen calls that pool over two axes.
#include "compiler/frontend/aten/table.h"

namespace piper::frontend::aten {
namespace {

Item made(ValueId v) { return Item::of_tensor(v); }

ir::PoolAttrs window(Call& c) {
  ir::PoolAttrs attrs;
  attrs.kernel = c.ints("kernel_size", 2);
  const Item& stride = c.arg("stride");
  attrs.stride = stride.is_none() || (stride.is_list() && stride.list.empty()) ? attrs.kernel : c.ints("stride", 2);
  attrs.padding = c.ints("padding", 2);
  attrs.dilation = {1, 1};
  attrs.ceil_mode = c.flag("ceil_mode");
  return attrs;
}

std::vector<ValueId> max_pool(Call& c) {
  ir::PoolAttrs attrs = window(c);
  attrs.dilation = c.ints("dilation", 2);
  return c.ops(OpKind::kMaxPool2d, {c.tensor("self")}, std::move(attrs));
}

}  // namespace

Item max_pool2d(Call& c) { return made(max_pool(c)[0]); }
Item max_pool2d_results(Call& c) {
  const std::vector<ValueId> r = max_pool(c);
  if (r.size() != 2) return c.fail("max_pool2d does not fit");
  return Item::of_list({made(r[0]), made(r[1])});
}

Item avg_pool2d(Call& c) {
  ir::PoolAttrs attrs = window(c);
  const bool padded = attrs.padding[0] != 0 || attrs.padding[1] != 0;
  if (c.has("divisor_override")) return c.fail("avg_pool2d with divisor_override is not supported");
  if (padded && !c.flag("count_include_pad")) return c.fail("avg_pool2d with padding is supported with count_include_pad=True");
  return made(c.op(OpKind::kAvgPool2d, {c.tensor("self")}, std::move(attrs)));
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
    if (m < 1 || n % m != 0) return c.fail("adaptive_avg_pool2d is supported where the output extents divide the input's");
    attrs.kernel.push_back(n / m);
  }
  attrs.stride = attrs.kernel;
  attrs.padding = {0, 0};
  attrs.dilation = {1, 1};
  return made(c.op(OpKind::kAvgPool2d, {x}, std::move(attrs)));
}

}  // namespace piper::frontend::aten
