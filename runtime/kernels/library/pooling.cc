// Two-dimensional pooling.
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/avg_pool2d_backward.h>
#include <ATen/ops/max_pool2d_with_indices.h>
#include <ATen/ops/max_pool2d_with_indices_backward.h>

#include "runtime/kernels/binding.h"

namespace piper::kernels::library {
namespace {

struct Window {
  std::vector<int64_t> kernel, stride, padding, dilation;
  bool ceil_mode = false;
};

// y is the pooled form of x; extents follow LibTorch's pooling_output_shape.
Window window_of(const Call& call, const at::Tensor& x, const at::Tensor& y, bool dilated) {
  Window w{call.attr_ints("kernel"), call.attr_ints("stride"), call.attr_ints("padding"), call.attr_ints("dilation"),
           call.attr_bool("ceil_mode")};
  if (w.kernel.size() != 2 || w.stride.size() != 2 || w.padding.size() != 2 || w.dilation.size() != 2)
    refuse("attributes of another number of spatial axes");
  if (x.dim() < 3 || x.dim() > 4) refuse("an operand of rank ", x.dim());
  std::vector<int64_t> shape = x.sizes().vec();
  for (size_t s = 0; s < 2; ++s) {
    if (w.stride[s] < 1 || w.kernel[s] < 1) refuse("an empty window or stride");
    if (!dilated && w.dilation[s] != 1) refuse("attribute `dilation` is ", w.dilation[s]);
    int64_t& extent = shape[shape.size() - 2 + s];
    const int64_t in = extent;
    const int64_t reach = in + 2 * w.padding[s] - w.dilation[s] * (w.kernel[s] - 1) - 1;
    extent = (reach + (w.ceil_mode ? w.stride[s] - 1 : 0)) / w.stride[s] + 1;
    if (w.ceil_mode && (extent - 1) * w.stride[s] >= in + w.padding[s]) --extent;
  }
  want_shape(y, shape, "the pooled operand");
  want_same_dtype(x, y);
  return w;
}

}  // namespace

std::unique_ptr<PreparedKernel> bind_max_pool2d(const Call& call) {
  const Window w = window_of(call, call.in(0), call.out(0), true);
  if (call.out(1).defined()) {
    want_shape(call.out(1), call.out(0).sizes(), "output 1");
    want_dtype(call.out(1), at::kLong, "output 1");
  }
  return make_kernel(call, [y = call.out(0), i = call.out(1), x = call.in(0), w]() mutable {
    at::Tensor indices = i.defined() && i.is_contiguous() ? i : scratch(y.sizes(), at::kLong, y);
    const at::Tensor input = dense(x);
    produce(y, false, [&](at::Tensor& dense_y) {
      at::max_pool2d_with_indices_out(dense_y, indices, input, w.kernel, w.stride, w.padding, w.dilation, w.ceil_mode);
    });
    if (i.defined() && !indices.is_same(i)) i.copy_(indices);
  });
}

std::unique_ptr<PreparedKernel> bind_max_pool2d_backward(const Call& call) {
  const at::Tensor dx = call.out(0), g = call.in(0), indices = call.in(1);
  const Window w = window_of(call, dx, g, true);
  want_shape(dx, call.attr_ints("shape"), "the output");
  want_shape(indices, g.sizes(), "the indices");
  want_dtype(indices, at::kLong, "the indices");
  return make_kernel(call, [dx, g, indices, w]() mutable {
    const at::Tensor gradient = dense(g), positions = dense(indices);
    produce(dx, false, [&](at::Tensor& y) {
      at::max_pool2d_with_indices_backward_out(y, gradient, y, w.kernel, w.stride, w.padding, w.dilation, w.ceil_mode,
                                               positions);
    });
  });
}

std::unique_ptr<PreparedKernel> bind_avg_pool2d(const Call& call) {
  const Window w = window_of(call, call.in(0), call.out(0), false);
  return make_kernel(call, [y = call.out(0), x = call.in(0), w]() mutable {
    const at::Tensor input = dense(x);
    produce(y, false, [&](at::Tensor& dense_y) {
      at::avg_pool2d_out(dense_y, input, w.kernel, w.stride, w.padding, w.ceil_mode, true, std::nullopt);
    });
  });
}

std::unique_ptr<PreparedKernel> bind_avg_pool2d_backward(const Call& call) {
  const at::Tensor dx = call.out(0), g = call.in(0);
  const Window w = window_of(call, dx, g, false);
  want_shape(dx, call.attr_ints("shape"), "the output");
  return make_kernel(call, [dx, g, w]() mutable {
    const at::Tensor gradient = dense(g);
    produce(dx, false, [&](at::Tensor& y) {
      at::avg_pool2d_backward_out(y, gradient, y, w.kernel, w.stride, w.padding, w.ceil_mode, true, std::nullopt);
    });
  });
}

}  // namespace piper::kernels::library
