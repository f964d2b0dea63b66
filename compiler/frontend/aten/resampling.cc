// ATen calls that put a grid of another size over images: transposed convolutions, upsampling by whole factors, windows
// that slide.
#include "compiler/frontend/aten/table.h"

namespace piper::frontend::aten {
namespace {

// `factor` - 1 zeros between neighbours of the axis.
ValueId spaced(Call& c, ValueId x, int64_t axis, int64_t factor) {
  if (factor == 1) return x;
  std::vector<int64_t> merged = c.shape(x);
  const int64_t n = merged[static_cast<size_t>(axis)];
  ValueId y = c.unsqueeze(x, axis + 1);
  ir::PadAttrs attrs;
  attrs.low.assign(c.shape(y).size(), 0);
  attrs.high = attrs.low;
  attrs.high[static_cast<size_t>(axis) + 1] = factor - 1;
  y = c.op(OpKind::kPad, {y}, std::move(attrs));
  merged[static_cast<size_t>(axis)] = c.product(n, factor);
  return c.slice(c.reshape(y, std::move(merged)), axis, 0, (n - 1) * factor + 1);
}

ValueId reversed(Call& c, ValueId x, int64_t axis) {
  const int64_t n = c.extent(x, axis);
  return n == 1 ? x : c.op(OpKind::kIndexSelect, {x, c.range(n - 1, n, -1, DType::kI64)}, ir::DimAttrs{axis});
}

// Every element of the axis `factor` times.
ValueId repeated(Call& c, ValueId x, int64_t axis, int64_t factor) {
  if (factor == 1) return x;
  std::vector<int64_t> merged = c.shape(x);
  ValueId y = c.unsqueeze(x, axis + 1);
  std::vector<int64_t> wide = c.shape(y);
  wide[static_cast<size_t>(axis) + 1] = factor;
  merged[static_cast<size_t>(axis)] = c.product(merged[static_cast<size_t>(axis)], factor);
  return c.reshape(c.expand(y, std::move(wide)), std::move(merged));
}

}  // namespace

// A convolution over the operand with zeros between its elements, with the kernel reversed and its channels exchanged
// (Dumoulin and Visin, A guide to convolution arithmetic, 4.6).
Item conv_transpose(Call& c) {
  const ValueId w = c.tensor("weight");
  ValueId x = c.tensor("input");
  if (c.rank(w) < 3 || c.rank(w) > 4 || c.rank(x) != c.rank(w))
    return c.fail("transposed convolutions are supported over one or two axes, with a batch axis");
  const size_t n = static_cast<size_t>(c.rank(w)) - 2;
  const std::vector<int64_t> stride = c.ints("stride", n), padding = c.ints("padding", n),
                             extra = c.ints("output_padding", n), dilation = c.ints("dilation", n);
  const int64_t groups = c.integer("groups");
  if (groups < 1 || c.extent(w, 0) % groups != 0) return c.fail("the groups do not divide the channels");
  ir::PadAttrs border;
  border.low.assign(n + 2, 0);
  border.high = border.low;
  for (size_t i = 0; i < n; ++i) {
    const auto axis = static_cast<int64_t>(i) + 2;
    if (stride[i] < 1 || dilation[i] < 1 || c.extent(x, axis) < 1)
      return c.fail("a transposed convolution of these extents");
    x = spaced(c, x, axis, stride[i]);
    border.low[i + 2] = dilation[i] * (c.extent(w, axis) - 1) - padding[i];
    border.high[i + 2] = border.low[i + 2] + extra[i];
  }
  x = c.op(OpKind::kPad, {x}, std::move(border));
  // [groups * I, O, ..] -> [groups * O, I, ..]
  const int64_t in = c.extent(w, 0) / groups, out = c.extent(w, 1);
  std::vector<int64_t> parted = c.shape(w), merged = parted, order = {0, 2, 1};
  parted[0] = in;
  parted.insert(parted.begin(), groups);
  merged[0] = c.product(groups, out);
  merged[1] = in;
  for (size_t i = 0; i < n; ++i) order.push_back(static_cast<int64_t>(i) + 3);
  ValueId kernel = c.reshape(c.permute(c.reshape(w, std::move(parted)), std::move(order)), std::move(merged));
  for (size_t i = 0; i < n; ++i) kernel = reversed(c, kernel, static_cast<int64_t>(i) + 2);
  ir::ConvolutionAttrs attrs;
  attrs.stride.assign(n, 1);
  attrs.padding.assign(n, 0);
  attrs.dilation = dilation;
  attrs.groups = groups;
  return made(c.op(OpKind::kConvolution, {x, kernel, c.tensor_or_none("bias")}, std::move(attrs)));
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

// Windows of `size` elements, `step` apart, along an axis; their elements become the last axis.
Item unfold(Call& c) {
  const ValueId x = c.tensor("self");
  if (c.rank(x) == 0) return c.fail("unfold of a scalar");
  const int64_t d = c.dim("dimension", c.shape(x).size()), size = c.integer("size"), step = c.integer("step"),
                n = c.extent(x, d);
  if (size < 1 || step < 1 || size > n) return c.fail("unfold: the window does not fit the axis");
  std::vector<ValueId> windows;
  for (int64_t at = 0; at < size; ++at)  // element `at` of every window
    windows.push_back(c.unsqueeze(c.slice(x, d, at, n - size + at + 1, step), -1));
  return made(c.cat(std::move(windows), c.rank(x)));
}

// Windows over the last two axes as columns: [N, C, H, W] -> [N, C x kernel, windows].
Item im2col(Call& c) {
  const ValueId whole = c.tensor("self");
  if (c.rank(whole) != 3 && c.rank(whole) != 4) return c.fail("im2col wants images of three or four axes");
  const std::vector<int64_t> kernel = c.ints("kernel_size", 2), dilation = c.ints("dilation", 2),
                             padding = c.ints("padding", 2), stride = c.ints("stride", 2);
  ValueId x = c.rank(whole) == 3 ? c.unsqueeze(whole, 0) : whole;
  if (padding[0] != 0 || padding[1] != 0) {
    ir::PadAttrs attrs;
    attrs.low = attrs.high = {0, 0, padding[0], padding[1]};
    x = c.op(OpKind::kPad, {x}, std::move(attrs));
  }
  std::vector<int64_t> windows;
  for (size_t i = 0; i < 2; ++i) {
    if (kernel[i] < 1 || dilation[i] < 1 || stride[i] < 1) return c.fail("im2col: a window or a step of nothing");
    const int64_t room = c.extent(x, static_cast<int64_t>(i) + 2) - dilation[i] * (kernel[i] - 1) - 1;
    if (room < 0) return c.fail("im2col: the window does not fit the image");
    windows.push_back(room / stride[i] + 1);
  }
  const auto along = [&](ValueId v, size_t i, int64_t at) {  // element `at` of every window
    const int64_t begin = at * dilation[i];
    return c.slice(v, static_cast<int64_t>(i) + 2, begin, begin + (windows[i] - 1) * stride[i] + 1, stride[i]);
  };
  std::vector<ValueId> places;
  for (int64_t row = 0; row < kernel[0]; ++row)
    for (int64_t column = 0; column < kernel[1]; ++column)
      places.push_back(c.unsqueeze(along(along(x, 0, row), 1, column), 2));
  const ValueId y = c.reshape(
      c.cat(std::move(places), 2),
      {c.extent(x, 0), c.product(c.extent(x, 1), c.product(kernel[0], kernel[1])), c.product(windows[0], windows[1])});
  return made(c.rank(whole) == 3 ? c.squeeze(y, 0) : y);
}

}  // namespace piper::frontend::aten
