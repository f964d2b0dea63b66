// Convolutions and pooling over one spatial axis, two or three.
#include <algorithm>
#include <limits>

#include "compiler/frontend/aten/windows.h"
#include "compiler/frontend/onnx/ops.h"

namespace piper::frontend::onnx {
namespace {

struct Window {
  std::vector<int64_t> kernel, stride, dilation, low, high;  // one entry per spatial axis
  bool ceil_mode = false;
};

// Output extents under SAME_* are ceil(extent / stride); the padding follows from it.
void pad_same(Window& w, const std::vector<int64_t>& spatial, bool upper) {
  for (size_t i = 0; i < spatial.size(); ++i) {
    const int64_t out = (spatial[i] + w.stride[i] - 1) / w.stride[i];
    const int64_t total =
        std::max<int64_t>(0, (out - 1) * w.stride[i] + (w.kernel[i] - 1) * w.dilation[i] + 1 - spatial[i]);
    w.low[i] = upper ? total / 2 : total - total / 2;
    w.high[i] = total - w.low[i];
  }
}

// The attributes that convolutions and pooling share, checked against the operand; refused where
// they do not fit. `kernel` is the weight's; {}: kernel_shape says it.
Window read_window(NodeImport& n, ValueId x, const std::vector<int64_t>& kernel) {
  Window w;
  const Extents shape = n.shape(x);
  if (shape.size() < 3 || shape.size() > 5) {
    n.refuse("it wants one to three spatial axes; its operand has " + std::to_string(shape.size()) + " axes in all");
    return w;
  }
  const size_t axes = shape.size() - 2;
  const std::vector<int64_t> ones(axes, 1);
  w.kernel = n.ints_attr("kernel_shape", kernel);
  if (!kernel.empty() && w.kernel != kernel) {
    n.refuse("its kernel_shape is not that of its weight");
    return w;
  }
  w.stride = n.ints_attr("strides", ones);
  w.dilation = n.ints_attr("dilations", ones);
  std::vector<int64_t> pads = n.ints_attr("pads", std::vector<int64_t>(2 * axes, 0));
  w.ceil_mode = n.int_attr("ceil_mode", 0) != 0;
  const std::string automatic = n.string_attr("auto_pad", "NOTSET");
  constexpr int64_t kMost = int64_t{1} << 31;
  const auto fits = [&](const std::vector<int64_t>& v, int64_t least) {
    return std::all_of(v.begin(), v.end(), [&](int64_t e) { return e >= least && e < kMost; });
  };
  if (w.kernel.size() != axes || w.stride.size() != axes || w.dilation.size() != axes || pads.size() != 2 * axes ||
      !fits(w.kernel, 1) || !fits(w.stride, 1) || !fits(w.dilation, 1) || !fits(pads, 0)) {
    n.refuse("its kernel, strides, dilations or pads do not fit");
    return w;
  }
  w.low.assign(pads.begin(), pads.begin() + static_cast<int64_t>(axes));
  w.high.assign(pads.begin() + static_cast<int64_t>(axes), pads.end());
  const std::vector<int64_t> spatial(shape.begin() + 2, shape.end());
  if (automatic == "VALID") w.low = w.high = std::vector<int64_t>(axes, 0);
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") pad_same(w, spatial, automatic == "SAME_UPPER");
  return w;
}

// Padding that differs between both ends, or exceeds what the operator takes, becomes a pad op.
ValueId pad_apart(NodeImport& n, ValueId x, Window& w, double value, bool pooling) {
  bool same = w.low == w.high;
  if (pooling)
    for (size_t i = 0; i < w.low.size(); ++i) same = same && w.low[i] <= w.kernel[i] / 2;
  if (same) return x;
  ir::PadAttrs attrs{{0, 0}, {0, 0}, value};
  attrs.low.insert(attrs.low.end(), w.low.begin(), w.low.end());
  attrs.high.insert(attrs.high.end(), w.high.begin(), w.high.end());
  w.low.assign(w.low.size(), 0);
  w.high = w.low;
  return n.emit(OpKind::kPad, {x}, std::move(attrs));
}

// Pooling over one axis is pooling over two, the first of extent 1.
ValueId pool(NodeImport& n, OpKind kind, ValueId x, const Window& w) {
  ir::PoolAttrs attrs{w.kernel, w.stride, w.low, w.dilation, w.ceil_mode};
  const Extents from = n.shape(x);
  const bool flat = from.size() == 3;
  if (flat) {
    for (std::vector<int64_t>* v : {&attrs.kernel, &attrs.stride, &attrs.dilation}) v->insert(v->begin(), 1);
    attrs.padding.insert(attrs.padding.begin(), 0);
    x = n.reshape(x, {from[0], from[1], 1, from[2]});
  }
  const ValueId y = n.emit_all(kind, {x}, std::move(attrs))[0];
  if (!flat || !n.ok()) return y;
  const Extents to = n.shape(y);
  return n.reshape(y, {to[0], to[1], to[3]});
}

void global(NodeImport& n, OpKind kind) {
  const ValueId x = n.in(0);
  std::vector<int64_t> dims;
  for (int64_t i = 2; i < n.rank(x); ++i) dims.push_back(i);
  if (dims.empty()) return n.refuse("it wants spatial axes");
  n.result(kind, {x}, ir::ReduceAttrs{dims, true});
}

}  // namespace

void import_conv(NodeImport& n) {
  const ValueId x = n.in(0), weight = n.in(1);
  const ValueId bias = n.in_or_none(2);
  if (!n.ok()) return;
  const Extents weight_shape = n.shape(weight);
  if (weight_shape.size() != n.shape(x).size() || weight_shape.size() < 3)
    return n.refuse("its weight does not fit its operand");
  Window w = read_window(n, x, {weight_shape.begin() + 2, weight_shape.end()});
  if (!n.ok()) return;
  const ValueId padded = pad_apart(n, x, w, 0, false);
  std::vector<ValueId> operands = {padded, weight};
  // Exporters write a convolution without bias with one of zeros.
  if (bias.valid() && n.known_number(bias) != 0.0) operands.push_back(bias);
  n.result(OpKind::kConvolution, operands, ir::ConvolutionAttrs{w.stride, w.low, w.dilation, n.int_attr("group", 1)});
}

namespace {

std::string of_axes(const char* front, const Window& w, const char* back) {
  return front + std::to_string(w.kernel.size()) + back;
}

// How many windows there are along an axis: with ceil_mode one more where some elements are left, but none that begins
// after the operand and its padding before it.
int64_t count_windows(const Window& w, int64_t extent, size_t i) {
  const int64_t room = extent + w.low[i] + w.high[i] - w.dilation[i] * (w.kernel[i] - 1) - 1;
  if (room < 0) return 0;
  int64_t count = (room + (w.ceil_mode ? w.stride[i] - 1 : 0)) / w.stride[i] + 1;
  if (w.ceil_mode && (count - 1) * w.stride[i] >= extent + w.low[i]) --count;
  return count;
}

// The elements of all windows, [N, C, kernel, windows..], with `border` outside of the operand.
ValueId windows_of(NodeImport& n, ValueId x, const Window& w, double border) {
  constexpr int64_t kMostElements = 4096;
  const Extents shape = n.shape(x);
  ir::PadAttrs around{{0, 0}, {0, 0}, border};
  int64_t in_all = 1;
  for (size_t i = 0; i < w.kernel.size(); ++i) {
    const int64_t count = count_windows(w, shape[i + 2], i);
    if (count < 1) return n.refuse("its window does not fit its operand"), x;
    around.low.push_back(w.low[i]);
    around.high.push_back((count - 1) * w.stride[i] + w.dilation[i] * (w.kernel[i] - 1) + 1 - shape[i + 2] - w.low[i]);
    if (__builtin_mul_overflow(in_all, w.kernel[i], &in_all) || in_all > kMostElements)
      return n.refuse("its window has more than " + std::to_string(kMostElements) + " elements"), x;
  }
  const ValueId padded = n.emit(OpKind::kPad, {x}, std::move(around));
  if (!n.ok()) return x;
  aten::Call c = n.as_call();
  const std::vector<int64_t> zeros(w.kernel.size(), 0);
  return n.finish(c, aten::Item::of_tensor(aten::columns(c, padded, w.kernel, {w.stride, zeros, w.dilation, 1})))[0];
}

// The place in the operand of each element of each window, [kernel, windows..]; `strides`: of places along each axis.
ValueId places_of(NodeImport& n, const Window& w, const std::vector<int64_t>& spatial,
                  const std::vector<int64_t>& strides) {
  std::vector<int64_t> shape{1}, places{0};
  for (size_t i = 0; i < w.kernel.size(); ++i) shape[0] *= w.kernel[i];
  for (size_t i = 0; i < w.kernel.size(); ++i) shape.push_back(count_windows(w, spatial[i], i));
  const std::optional<int64_t> all = count_elements(shape);
  if (!all || !n.may_make(*all * 8)) return n.scalar(0, DType::kI64);
  places.assign(static_cast<size_t>(*all), 0);
  for (size_t at = 0; at < places.size(); ++at) {
    auto window = static_cast<int64_t>(at);
    int64_t element = window / (*all / shape[0]);
    for (size_t i = w.kernel.size(); i-- > 0;) {
      const int64_t along = window % shape[i + 1] * w.stride[i] + element % w.kernel[i] * w.dilation[i] - w.low[i];
      places[at] += along * strides[i];
      window /= shape[i + 1];
      element /= w.kernel[i];
    }
  }
  return n.constant_i64(shape, places);
}

// How many elements each window has, those of the padding counted too, or not: [windows..].
std::vector<int64_t> elements_of_windows(const Window& w, const std::vector<int64_t>& spatial, bool with_padding) {
  std::vector<int64_t> out{1};
  for (size_t i = 0; i < w.kernel.size(); ++i) {
    const int64_t begin = with_padding ? 0 : w.low[i], end = spatial[i] + w.low[i] + (with_padding ? w.high[i] : 0);
    std::vector<int64_t> wider;
    for (const int64_t before : out)
      for (int64_t window = 0; window < count_windows(w, spatial[i], i); ++window) {
        int64_t inside = 0;
        for (int64_t k = 0; k < w.kernel[i]; ++k) {
          const int64_t at = window * w.stride[i] + k * w.dilation[i];
          inside += at >= begin && at < end ? 1 : 0;
        }
        wider.push_back(before * inside);
      }
    out = std::move(wider);
  }
  return out;
}

bool all_are(const std::vector<int64_t>& v, int64_t number) {
  return std::all_of(v.begin(), v.end(), [&](int64_t e) { return e == number; });
}

}  // namespace

// Places are those of the whole operand; with storage_order = 1 as if the spatial axes were in reverse order.
void import_max_pool(NodeImport& n) {
  const ValueId x = n.in(0);
  Window w = read_window(n, x, {});
  if (!n.ok()) return;
  const double lowest = -std::numeric_limits<double>::infinity();
  if (w.kernel.size() < 3 && !n.is_read(1)) {
    const ValueId padded = pad_apart(n, x, w, lowest, true);
    return n.set(0, pool(n, OpKind::kMaxPool2d, padded, w));
  }
  const std::vector<ValueId> both = n.call_all("aten.max.dim", {windows_of(n, x, w, lowest), 2, false});
  if (!n.ok()) return;
  n.set_all({both[0]});
  if (!n.is_read(1)) return;
  const Extents shape = n.shape(x), spatial(shape.begin() + 2, shape.end());
  Extents strides(spatial.size(), 1), wide = n.shape(both[1]), counted(shape.size(), 1);
  const bool reversed = n.int_attr("storage_order", 0) != 0;
  int64_t plane = 1;
  for (size_t i = 0; i < spatial.size(); ++i) {
    const size_t axis = reversed ? i : spatial.size() - 1 - i;
    strides[axis] = plane;
    plane *= spatial[axis];
  }
  const ValueId table = places_of(n, w, spatial, strides);
  if (!n.ok()) return;
  wide.insert(wide.begin() + 2, n.shape(table)[0]);
  ValueId place = n.call("aten.gather.default", {n.expand(table, wide), 2, n.unsqueeze(both[1], 2)});
  place = n.reshape(place, n.shape(both[1]));
  aten::Call c = n.as_call();
  for (const size_t axis : {size_t{0}, size_t{1}}) {
    std::vector<int64_t> along(counted.size(), 1);
    along[axis] = shape[axis];
    const ValueId numbers =
        c.reshape(c.range(0, shape[axis], axis == 0 ? shape[1] * plane : plane, DType::kI64), along);
    place = c.op(OpKind::kAdd, {place, numbers});
  }
  n.set(1, n.finish(c, aten::Item::of_tensor(place))[0]);
}

void import_average_pool(NodeImport& n) {
  const ValueId x = n.in(0);
  Window w = read_window(n, x, {});
  const bool counts_padding = n.int_attr("count_include_pad", 0) != 0;
  if (!n.ok()) return;
  bool usual = w.low == w.high && all_are(w.dilation, 1);
  for (size_t i = 0; i < w.low.size(); ++i) usual = usual && w.low[i] <= w.kernel[i] / 2;
  if (usual)
    return n.is_call(of_axes("aten.avg_pool", w, "d.default"),
                     {x, w.kernel, w.stride, w.low, w.ceil_mode, counts_padding});
  const Extents shape = n.shape(x), spatial(shape.begin() + 2, shape.end()), axes{2};
  const ValueId total = n.call("aten.sum.dim_IntList", {windows_of(n, x, w, 0), axes, false});
  if (!n.ok()) return;
  Extents windows = n.shape(total);
  windows.erase(windows.begin(), windows.begin() + 2);
  const std::vector<int64_t> counts = elements_of_windows(w, spatial, counts_padding);
  if (std::find(counts.begin(), counts.end(), 0) != counts.end())
    return n.refuse("one of its windows has no element of its operand");
  n.result(OpKind::kDiv, {total, n.cast(n.constant_i64(windows, counts), n.dtype(x))});
}

// (the sum of |x|^p)^(1 / p) of each window.
void import_lp_pool(NodeImport& n) {
  const ValueId x = n.in(0);
  const Window w = read_window(n, x, {});
  const int64_t order = n.int_attr("p", 2);
  if (!n.ok()) return;
  n.is_call("aten.linalg_vector_norm.default", {windows_of(n, x, w, 0), order, std::vector<int64_t>{2}, false});
}

void import_global_lp_pool(NodeImport& n) {
  const ValueId x = n.in(0);
  std::vector<int64_t> dims;
  for (int64_t i = 2; i < n.rank(x); ++i) dims.push_back(i);
  if (dims.empty()) return n.refuse("it wants spatial axes");
  n.is_call("aten.linalg_vector_norm.default", {x, n.int_attr("p", 2), dims, true});
}

// Elements go to their places, those of MaxPool's second result: a sample's lie in its own part of the whole. Where the
// shape is given and larger, what is made lies at its beginning.
void import_max_unpool(NodeImport& n) {
  const ValueId x = n.in(0), places = n.in(1);
  const Window w = read_window(n, x, {});
  const std::vector<int64_t> given = n.has(2) ? n.ints(n.in(2), "output_shape") : std::vector<int64_t>{};
  if (!n.ok()) return;
  Extents shape = n.shape(x);
  for (size_t i = 0; i < w.kernel.size(); ++i)
    shape[i + 2] = (shape[i + 2] - 1) * w.stride[i] - w.low[i] - w.high[i] + w.kernel[i];
  const std::optional<int64_t> all = count_elements(shape);
  if (!all || *all == 0 || n.shape(places) != n.shape(x)) return n.refuse("its places do not fit its operand");
  const int64_t samples = shape[0], own = *all / samples;
  const ValueId inside = n.call("aten.remainder.Scalar", {n.cast(places, DType::kI64), own});
  const ValueId nothing = n.call("aten.full.default", {std::vector<int64_t>{samples, own}, 0.0});
  const std::vector<int64_t> rows{samples, n.type(x).elements() / samples};
  const ValueId y =
      n.reshape(n.emit(OpKind::kScatter, {n.cast(nothing, n.dtype(x)), n.reshape(inside, rows), n.reshape(x, rows)},
                       ir::DimAttrs{1}),
                shape);
  if (given.empty() || given == shape) return n.set(0, y);
  if (given.size() != shape.size()) return n.refuse("its output_shape has another number of axes");
  ir::PadAttrs after{std::vector<int64_t>(shape.size(), 0), {}, 0};
  for (size_t i = 0; i < shape.size(); ++i) {
    if (given[i] < shape[i]) return n.refuse("its output_shape is smaller than what it makes");
    after.high.push_back(given[i] - shape[i]);
  }
  n.result(OpKind::kPad, {y}, std::move(after));
}

void import_conv_transpose(NodeImport& n) {
  const ValueId x = n.in(0), weight = n.in(1), bias = n.in_or_none(2);
  if (!n.ok()) return;
  const Extents weight_shape = n.shape(weight), shape = n.shape(x);
  if (weight_shape.size() != shape.size() || weight_shape.size() < 3)
    return n.refuse("its weight does not fit its operand");
  Window w = read_window(n, x, {weight_shape.begin() + 2, weight_shape.end()});
  const size_t axes = w.kernel.size();
  std::vector<int64_t> extra = n.ints_attr("output_padding", std::vector<int64_t>(axes, 0)),
                       wanted = n.ints_attr("output_shape", {});
  const std::string automatic = n.string_attr("auto_pad", "NOTSET");
  if (!n.ok()) return;
  if (wanted.size() == axes + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  const bool same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
  if (extra.size() != axes || (!wanted.empty() && wanted.size() != axes))
    return n.refuse("its output_padding or output_shape does not fit");
  for (size_t i = 0; i < axes; ++i) {
    if (same || !wanted.empty()) {
      const int64_t whole = w.stride[i] * (shape[i + 2] - 1) + extra[i] + (w.kernel[i] - 1) * w.dilation[i] + 1;
      const int64_t total = whole - (wanted.empty() ? shape[i + 2] * w.stride[i] : wanted[i]);
      const int64_t half = (total - ((total % 2) + 2) % 2) / 2;  // rounded down, of a negative one, too
      w.low[i] = automatic == "SAME_UPPER" ? half : total - half;
      w.high[i] = total - w.low[i];
    }
    extra[i] += w.low[i] - w.high[i];  // of the call, whose padding is the same at both ends
  }
  n.is_call(of_axes("aten.conv_transpose", w, axes == 1 ? "d.default" : "d.input"),
            {x, weight, bias, w.stride, w.low, extra, n.int_attr("group", 1), w.dilation});
}

void import_col2im(NodeImport& n) {
  const ValueId x = n.in(0);
  const std::vector<int64_t> image = n.ints(n.in(1), "image_shape"), block = n.ints(n.in(2), "block_shape"),
                             ones(image.size(), 1), dilations = n.ints_attr("dilations", ones),
                             strides = n.ints_attr("strides", ones);
  const std::vector<int64_t> pads = n.ints_attr("pads", std::vector<int64_t>(2 * image.size(), 0));
  if (!n.ok()) return;
  const auto half = static_cast<std::ptrdiff_t>(image.size());
  if (pads.size() != 2 * image.size() || !std::equal(pads.begin(), pads.begin() + half, pads.begin() + half))
    return n.refuse("its pads are not the same at both ends of each axis");
  n.is_call("aten.col2im.default",
            {x, image, block, dilations, std::vector<int64_t>(pads.begin(), pads.begin() + half), strides});
}

// A convolution of each channel with itself, over what comes before: zeros, or what an earlier call has left.
void import_causal_conv_with_state(NodeImport& n) {
  const ValueId x = n.in(0), weight = n.in(1), bias = n.in_or_none(2);
  const std::string activation = n.string_attr("activation", "none");
  if (!n.ok()) return;
  if (activation != "none" && activation != "silu" && activation != "swish")
    return n.refuse("its activation '" + activation.substr(0, 40) + "' is unknown");
  if (n.rank(x) != 3 || n.rank(weight) != 3) return n.refuse("it wants [N, C, L] and a weight [C, 1, K]");
  const int64_t before = n.shape(weight)[2] - 1;
  const ValueId padded = n.has(3) ? n.emit(OpKind::kCat, {n.in(3), x}, ir::DimAttrs{2})
                                  : n.emit(OpKind::kPad, {x}, ir::PadAttrs{{0, 0, before}, {0, 0, 0}, 0});
  ValueId y = n.call("aten.conv1d.default", {padded, weight, bias, 1, 0, 1, n.shape(weight)[0]});
  if (activation != "none") y = n.call("aten.silu.default", {y});
  if (!n.ok()) return;
  const int64_t all = n.shape(padded)[2];
  n.set_all({y, n.slice(padded, 2, all - before, all)});
}

void import_global_average_pool(NodeImport& n) { global(n, OpKind::kMean); }
void import_global_max_pool(NodeImport& n) { global(n, OpKind::kAmax); }

}  // namespace piper::frontend::onnx
