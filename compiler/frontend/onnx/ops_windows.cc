// Convolutions over one spatial axis, two or three; pooling over one or two.
#include <algorithm>
#include <limits>

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
  const std::vector<int64_t> shape = n.shape(x);
  const size_t most = kernel.empty() ? 4 : 5;
  if (shape.size() < 3 || shape.size() > most) {
    n.refuse("it wants " + std::string(kernel.empty() ? "one or two" : "one to three") +
             " spatial axes; its operand has " + std::to_string(shape.size()) + " axes in all");
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
  const std::vector<int64_t> from = n.shape(x);
  const bool flat = from.size() == 3;
  if (flat) {
    for (std::vector<int64_t>* v : {&attrs.kernel, &attrs.stride, &attrs.dilation}) v->insert(v->begin(), 1);
    attrs.padding.insert(attrs.padding.begin(), 0);
    x = n.reshape(x, {from[0], from[1], 1, from[2]});
  }
  const ValueId y = n.emit_all(kind, {x}, std::move(attrs))[0];
  if (!flat || !n.ok()) return y;
  const std::vector<int64_t> to = n.shape(y);
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
  const std::vector<int64_t> weight_shape = n.shape(weight);
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

void import_max_pool(NodeImport& n) {
  const ValueId x = n.in(0);
  Window w = read_window(n, x, {});
  if (n.is_read(1)) n.refuse("its second result, the indices, is not supported");
  if (!n.ok()) return;
  const ValueId padded = pad_apart(n, x, w, -std::numeric_limits<double>::infinity(), true);
  n.set(0, pool(n, OpKind::kMaxPool2d, padded, w));
}

void import_average_pool(NodeImport& n) {
  const ValueId x = n.in(0);
  Window w = read_window(n, x, {});
  if (!n.ok()) return;
  const auto zero = [](const std::vector<int64_t>& v) {
    return std::all_of(v.begin(), v.end(), [](int64_t e) { return e == 0; });
  };
  if (const bool counts_padding = n.int_attr("count_include_pad", 0) != 0;
      !counts_padding && !(zero(w.low) && zero(w.high)))
    return n.refuse("padding without count_include_pad is not supported");
  if (w.ceil_mode || std::any_of(w.dilation.begin(), w.dilation.end(), [](int64_t d) { return d != 1; }))
    return n.refuse("ceil_mode and dilations are not supported");
  const ValueId padded = pad_apart(n, x, w, 0, true);
  n.set(0, pool(n, OpKind::kAvgPool2d, padded, w));
}

void import_global_average_pool(NodeImport& n) { global(n, OpKind::kMean); }
void import_global_max_pool(NodeImport& n) { global(n, OpKind::kAmax); }

}  // namespace piper::frontend::onnx
