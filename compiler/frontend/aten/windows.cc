// ATen calls that slide a window over images: convolutions, also transposed ones, and windows as columns.
#include "compiler/frontend/aten/windows.h"

#include "compiler/frontend/aten/table.h"

namespace piper::frontend::aten {
ValueId columns(Call& c, ValueId x, const std::vector<int64_t>& kernel, const ir::ConvolutionAttrs& a) {
  const size_t n = kernel.size();
  ir::PadAttrs border;
  border.low.assign(n + 2, 0);
  std::copy(a.padding.begin(), a.padding.end(), border.low.begin() + 2);
  border.high = border.low;
  if (border.low != std::vector<int64_t>(n + 2, 0)) x = c.op(OpKind::kPad, {x}, std::move(border));
  std::vector<ValueId> places{x};
  for (size_t i = 0; i < n; ++i) {
    if (kernel[i] < 1 || a.dilation[i] < 1 || a.stride[i] < 1) c.fail("a window or a step of nothing");
    const auto axis = static_cast<int64_t>(i) + 2;
    const int64_t room = c.extent(x, axis) - a.dilation[i] * (kernel[i] - 1) - 1;
    if (room < 0) c.fail("the window does not fit the image");
    if (!c.status().ok()) return x;
    std::vector<ValueId> next;
    for (ValueId v : places)
      for (int64_t at = 0; at < kernel[i]; ++at) {  // element `at` of every window
        const int64_t begin = at * a.dilation[i];
        next.push_back(c.slice(v, axis, begin, begin + room / a.stride[i] * a.stride[i] + 1, a.stride[i]));
      }
    places = std::move(next);
  }
  for (ValueId& v : places) v = c.unsqueeze(v, 2);
  return c.cat(std::move(places), 2);
}

namespace {

// `factor` - 1 zeros between neighbours of the axis.
ValueId spaced(Call& c, ValueId x, int64_t axis, int64_t factor) {
  if (factor == 1) return x;
  Extents merged = c.shape(x);
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

// The product of a shape's extents from axis `first` on.
int64_t elements_from(Call& c, ValueId x, int64_t first) {
  int64_t out = 1;
  for (int64_t axis = first; axis < c.rank(x); ++axis) out = c.product(out, c.extent(x, axis));
  return out;
}

// The convolution of the call's groups and bias. Groups by samples, each with a kernel of its own, are a product of
// matrices of the group: the operator's attribute would depend on the batch.
ValueId convolved(Call& c, ValueId x, ValueId w, ir::ConvolutionAttrs attrs) {
  const ValueId bias = c.tensor_or_none("bias");
  attrs.groups = c.integer("groups");
  if (!c.arg("groups").of_batch) return c.op(OpKind::kConvolution, {x, w, bias}, std::move(attrs));
  const Extents kernel_shape = c.shape(w);
  const int64_t groups = attrs.groups;
  if (groups < 1 || c.extent(w, 0) % groups != 0 || c.extent(x, 1) != c.product(groups, c.extent(w, 1))) {
    c.fail("the groups do not fit the channels");
    return x;
  }
  const ValueId windows = columns(c, x, {kernel_shape.begin() + 2, kernel_shape.end()}, attrs);
  const int64_t inner = elements_from(c, w, 1), out = c.extent(w, 0) / groups;
  Extents shape = c.shape(windows);
  shape.erase(shape.begin() + 2);
  shape[1] = c.extent(w, 0);
  const ValueId rows = c.reshape(windows, {c.extent(x, 0), groups, inner, elements_from(c, windows, 3)});
  ValueId y = c.op(OpKind::kMatmul, {c.reshape(w, {groups, out, inner}), rows});
  y = c.reshape(y, std::move(shape));
  if (!bias.valid()) return y;
  std::vector<int64_t> of_channels(kernel_shape.size() - 1, 1);
  of_channels[0] = c.extent(bias, 0);
  return c.binary(OpKind::kAdd, y, c.reshape(bias, std::move(of_channels)));
}

size_t spatial_axes(Call& c) { return std::max<size_t>(c.shape(c.tensor("weight")).size(), 2) - 2; }

// `low`, `high`: zeros at both ends of each axis.
Item convolve(Call& c, const std::vector<int64_t>& low, const std::vector<int64_t>& high) {
  const size_t n = spatial_axes(c);
  ValueId x = c.tensor("input");
  if (n < 1 || n > 3) return c.fail("convolutions are supported over one axis, two or three");
  const bool lone = c.shape(x).size() == n + 1;  // one sample without a batch axis
  if (lone) x = c.unsqueeze(x, 0);
  ir::ConvolutionAttrs attrs;
  attrs.stride = c.ints("stride", n);
  attrs.dilation = c.ints("dilation", n);
  attrs.padding = low;
  if (low != high) {
    ir::PadAttrs border;
    border.low.assign(2, 0);
    border.high = border.low;
    border.low.insert(border.low.end(), low.begin(), low.end());
    border.high.insert(border.high.end(), high.begin(), high.end());
    x = c.op(OpKind::kPad, {x}, std::move(border));
    attrs.padding.assign(n, 0);
  }
  const ValueId y = convolved(c, x, c.tensor("weight"), std::move(attrs));
  return made(lone ? c.squeeze(y, 0) : y);
}

}  // namespace

Item convolution(Call& c) {
  const std::vector<int64_t> padding = c.ints("padding", spatial_axes(c));
  return convolve(c, padding, padding);
}

// `same`: with an even kernel one zero more at the end.
Item convolution_worded(Call& c) {
  const size_t n = spatial_axes(c);
  const std::vector<int64_t> dilation = c.ints("dilation", n);
  std::vector<int64_t> low(n, 0), high(n, 0);
  if (c.text("padding") == "same") {
    for (size_t i = 0; i < n; ++i) {
      const int64_t total = dilation[i] * (c.extent(c.tensor("weight"), static_cast<int64_t>(i) + 2) - 1);
      low[i] = total / 2;
      high[i] = total - low[i];
    }
  } else if (c.text("padding") != "valid") {
    return c.fail("padding '" + c.text("padding") + "'");
  }
  return convolve(c, low, high);
}

Item convolution_general(Call& c) {
  if (c.flag("transposed")) return conv_transpose(c);
  return convolution(c);
}

// A convolution over the operand with zeros between its elements, with the kernel reversed and its channels exchanged
// (Dumoulin and Visin, A guide to convolution arithmetic, 4.6).
Item conv_transpose(Call& c) {
  const ValueId w = c.tensor("weight");
  ValueId x = c.tensor("input");
  const size_t n = spatial_axes(c);
  const bool lone = c.rank(x) == static_cast<int64_t>(n) + 1;
  if (lone) x = c.unsqueeze(x, 0);
  if (n < 1 || n > 3 || c.rank(x) != c.rank(w))
    return c.fail("transposed convolutions are supported over one axis, two or three");
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
  Extents parted = c.shape(w), merged = parted, order = {0, 2, 1};
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
  const ValueId y = convolved(c, x, kernel, attrs);
  return made(lone ? c.squeeze(y, 0) : y);
}

// Windows of `size` elements, `step` apart, along an axis; their elements become the last axis.
Item unfold(Call& c) {
  const ValueId self = c.tensor("self"), x = c.with_axis(self);
  const int64_t d = c.dim("dimension", c.shape(x).size()), size = c.integer("size"), step = c.integer("step"),
                n = c.extent(x, d);
  if (size < 1 || step < 1 || size > n) return c.fail("unfold: the window does not fit the axis");
  std::vector<ValueId> windows;
  for (int64_t at = 0; at < size; ++at)  // element `at` of every window
    windows.push_back(c.unsqueeze(c.slice(x, d, at, n - size + at + 1, step), -1));
  if (c.rank(self) == 0) return made(x);
  return made(c.cat(std::move(windows), c.rank(x)));
}

// Windows over the last two axes as columns: [N, C, H, W] -> [N, C x kernel, windows].
Item im2col(Call& c) {
  const ValueId whole = c.tensor("self");
  if (c.rank(whole) != 3 && c.rank(whole) != 4) return c.fail("im2col wants images of three or four axes");
  const std::vector<int64_t> kernel = c.ints("kernel_size", 2);
  const ValueId x = c.rank(whole) == 3 ? c.unsqueeze(whole, 0) : whole;
  const ValueId made_of = columns(c, x, kernel, {c.ints("stride", 2), c.ints("padding", 2), c.ints("dilation", 2), 1});
  const ValueId y = c.reshape(made_of, {c.extent(x, 0), c.product(c.extent(x, 1), c.product(kernel[0], kernel[1])),
                                        elements_from(c, made_of, 3)});
  return made(c.rank(whole) == 3 ? c.squeeze(y, 0) : y);
}

// Its transpose, over any number of axes: every element of a column is added to where it comes from.
Item col2im(Call& c) {
  const ValueId whole = c.tensor("self");
  const size_t axes = c.ints("output_size").size();
  const std::vector<int64_t> extents = c.ints("output_size"), kernel = c.ints("kernel_size", axes),
                             dilation = c.ints("dilation", axes), padding = c.ints("padding", axes),
                             stride = c.ints("stride", axes);
  if (c.rank(whole) != 2 && c.rank(whole) != 3) return c.fail("col2im wants columns of two or three axes");
  std::vector<int64_t> padded, windows;
  int64_t in_all = 1, room_in_all = 1;
  for (size_t i = 0; i < axes; ++i) {
    padded.push_back(extents[i] + 2 * padding[i]);
    const int64_t room = padded[i] - dilation[i] * (kernel[i] - 1) - 1;
    if (kernel[i] < 1 || dilation[i] < 1 || stride[i] < 1 || room < 0) return c.fail("col2im: windows of nothing");
    windows.push_back(room / stride[i] + 1);
    in_all = c.product(in_all, kernel[i]);
    room_in_all = c.product(room_in_all, windows[i]);
  }
  if (c.extent(whole, c.rank(whole) - 2) % in_all != 0 || c.extent(whole, c.rank(whole) - 1) != room_in_all)
    return c.fail("col2im: the columns are not those of its windows");
  if (!c.may_make(c.product(in_all, room_in_all))) return Item::none();
  std::vector<int64_t> places;
  for (int64_t at = 0; at < in_all; ++at)
    for (int64_t window = 0; window < room_in_all; ++window) {
      int64_t place = 0, element = at, number = window, step = 1;
      for (size_t i = axes; i-- > 0;) {  // from the last axis on
        place += (element % kernel[i] * dilation[i] + number % windows[i] * stride[i]) * step;
        element /= kernel[i];
        number /= windows[i];
        step *= padded[i];
      }
      places.push_back(place);
    }
  ValueId x = c.rank(whole) == 2 ? c.unsqueeze(whole, 0) : whole;
  const int64_t channels = c.extent(x, 1) / in_all, n = c.extent(x, 0);
  const auto count = static_cast<int64_t>(places.size());
  x = c.reshape(x, {n, channels, count});
  int64_t elements = 1;
  for (const int64_t extent : padded) elements = c.product(elements, extent);
  const ValueId nothing = c.filled({n, channels, elements}, 0, c.dtype(x));
  ValueId y = c.op(OpKind::kIndexAdd, {nothing, c.builder().constant_i64({count}, places), x}, ir::DimAttrs{2});
  padded.insert(padded.begin(), {n, channels});
  y = c.reshape(y, padded);
  for (size_t i = 0; i < axes; ++i) y = c.slice(y, static_cast<int64_t>(i) + 2, padding[i], padding[i] + extents[i]);
  return made(c.rank(whole) == 2 ? c.squeeze(y, 0) : y);
}

}  // namespace piper::frontend::aten
