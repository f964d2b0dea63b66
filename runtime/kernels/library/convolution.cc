// Convolutions. LibTorch has no variant that writes into a given output, so the result is made in the
// scratch arena and stored; the two halves of the backward are two kernels.
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>

#include "runtime/kernels/binding.h"

namespace piper::kernels::library {
namespace {

struct Geometry {
  std::vector<int64_t> stride, padding, dilation, output_padding;
  int64_t groups = 1;
};

Geometry geometry_of(const Call& call, const at::Tensor& x) {
  Geometry g{
      call.attr_ints("stride"), call.attr_ints("padding"), call.attr_ints("dilation"), {}, call.attr_int("groups")};
  const auto spatial = static_cast<size_t>(std::max<int64_t>(x.dim() - 2, 0));
  if (spatial < 1 || g.stride.size() != spatial || g.padding.size() != spatial || g.dilation.size() != spatial)
    refuse("attributes of another number of spatial axes");
  if (g.groups < 1) refuse("attribute `groups` is ", g.groups);
  g.output_padding.assign(spatial, 0);
  return g;
}

// y[n, o, ..] of x[n, c, ..] and w[o, c / groups, ..].
void check_shapes(const at::Tensor& x, const at::Tensor& w, const at::Tensor& y, const Geometry& g) {
  if (w.dim() != x.dim() || y.dim() != x.dim()) refuse("operands of different rank");
  std::vector<int64_t> shape{x.size(0), w.size(0)};
  if (w.size(1) * g.groups != x.size(1)) refuse("a weight of ", w.size(1), " channels for ", x.size(1));
  for (int64_t axis = 2; axis < x.dim(); ++axis) {
    const auto s = static_cast<size_t>(axis - 2);
    if (g.stride[s] < 1) refuse("attribute `stride` is ", g.stride[s]);
    shape.push_back((x.size(axis) + 2 * g.padding[s] - g.dilation[s] * (w.size(axis) - 1) - 1) / g.stride[s] + 1);
  }
  want_shape(y, shape, "the result");
  want_same_dtype(x, w);
  want_same_dtype(x, y);
}

// Operands in the type in which the library is fast.
struct Fast {
  explicit Fast(const Call& call) : widens(call.device().widens_products(call.out(0).scalar_type())) {}
  at::Tensor operator()(const at::Tensor& t) const { return widens ? dense_computed(t) : t; }
  bool widens;
};

}  // namespace

std::unique_ptr<PreparedKernel> bind_convolution(const Call& call) {
  const Geometry geometry = geometry_of(call, call.in(0));
  check_shapes(call.in(0), call.in(1), call.out(0), geometry);
  return make_kernel(
      call, [y = call.out(0), x = call.in(0), w = call.in(1), bias = call.in(2), geometry, fast = Fast(call)] {
        const std::optional<at::Tensor> added = bias.defined() ? std::optional(fast(bias)) : std::nullopt;
        y.copy_(at::convolution(fast(x), fast(w), added, geometry.stride, geometry.padding, geometry.dilation, false,
                                geometry.output_padding, geometry.groups));
      });
}

std::unique_ptr<PreparedKernel> bind_convolution_backward_input(const Call& call) {
  const at::Tensor dx = call.out(0), g = call.in(0), w = call.in(1);
  const Geometry geometry = geometry_of(call, dx);
  want_shape(dx, call.attr_ints("shape"), "the output");
  check_shapes(dx, w, g, geometry);
  return make_kernel(call, [dx, g, w, geometry, fast = Fast(call)]() mutable {
    // For the forward's input only shape and layout are read.
    const auto result = at::convolution_backward(fast(g), fast(dx), fast(w), std::nullopt, geometry.stride,
                                                 geometry.padding, geometry.dilation, false, geometry.output_padding,
                                                 geometry.groups, {true, false, false});
    dx.copy_(std::get<0>(result));
  });
}

std::unique_ptr<PreparedKernel> bind_convolution_backward_weight(const Call& call) {
  const at::Tensor dw = call.out(0), g = call.in(0), x = call.in(1);
  const Geometry geometry = geometry_of(call, x);
  want_shape(dw, call.attr_ints("shape"), "the output");
  check_shapes(x, dw, g, geometry);
  return make_kernel(call, [dw, g, x, geometry, fast = Fast(call), accumulate = call.accumulate()]() mutable {
    // For the weight only shape and layout are read.
    const auto result = at::convolution_backward(fast(g), fast(x), fast(dw), std::nullopt, geometry.stride,
                                                 geometry.padding, geometry.dilation, false, geometry.output_padding,
                                                 geometry.groups, {false, true, false});
    store(dw, std::get<1>(result), accumulate);
  });
}

}  // namespace piper::kernels::library
