// Two-dimensional pooling.
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/avg_pool2d_backward.h>
#include <ATen/ops/max_pool2d_with_indices.h>
#include <ATen/ops/max_pool2d_with_indices_backward.h>

#include "runtime/kernels/binding.h"
#include "runtime/kernels/pool_window.h"

namespace piper::kernels::library {
namespace {

// y is the pooled form of x.
PoolWindow window_of(const Call& call, const at::Tensor& x, const at::Tensor& y, bool dilated) {
  const PoolWindow w = read_pool_window(call, dilated);
  want_shape(y, w.pooled(x.sizes().vec()), "the pooled operand");
  want_same_dtype(x, y);
  return w;
}

}  // namespace

std::unique_ptr<PreparedKernel> bind_max_pool2d(const Call& call) {
  const PoolWindow w = window_of(call, call.in(0), call.out(0), true);
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
  const PoolWindow w = window_of(call, dx, g, true);
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
  const PoolWindow w = window_of(call, call.in(0), call.out(0), false);
  return make_kernel(call, [y = call.out(0), x = call.in(0), w]() mutable {
    const at::Tensor input = dense(x);
    produce(y, false, [&](at::Tensor& dense_y) {
      at::avg_pool2d_out(dense_y, input, w.kernel, w.stride, w.padding, w.ceil_mode, true, std::nullopt);
    });
  });
}

std::unique_ptr<PreparedKernel> bind_avg_pool2d_backward(const Call& call) {
  const at::Tensor dx = call.out(0), g = call.in(0);
  const PoolWindow w = window_of(call, dx, g, false);
  want_shape(dx, call.attr_ints("shape"), "the output");
  return make_kernel(call, [dx, g, w]() mutable {
    const at::Tensor gradient = dense(g);
    produce(dx, false, [&](at::Tensor& y) {
      at::avg_pool2d_backward_out(y, gradient, y, w.kernel, w.stride, w.padding, w.ceil_mode, true, std::nullopt);
    });
  });
}

}  // namespace piper::kernels::library
