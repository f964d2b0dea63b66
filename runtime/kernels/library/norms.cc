// Group and batch normalisation with LibTorch's operators. They make their results themselves, so these are stored from
// scratch.
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <ATen/ops/native_group_norm.h>
#include <ATen/ops/native_group_norm_backward.h>

#include "runtime/kernels/binding.h"

namespace piper::kernels::library {
namespace {

// A weight as the operators read it: dense, or none.
std::optional<at::Tensor> optional(const at::Tensor& t) {
  return t.defined() ? std::optional<at::Tensor>(dense(t)) : std::nullopt;
}
// A running statistic, which the operator changes in place.
std::optional<at::Tensor> state(const at::Tensor& t) {
  return t.defined() ? std::optional<at::Tensor>(t) : std::nullopt;
}
// A saved statistic in the element type of x.
at::Tensor as_type(const at::Tensor& t, const at::Tensor& x) {
  if (t.scalar_type() == x.scalar_type()) return t;
  at::Tensor converted = scratch(t.sizes(), x.scalar_type(), x);
  converted.copy_(t);
  return converted;
}
void store_statistic(at::Tensor& out, const at::Tensor& value) {
  if (out.defined()) out.copy_(value.view(out.sizes()));
}
void want_count(const at::Tensor& t, int64_t count, const char* what) {
  if (t.defined() && t.numel() != count) refuse(what, " has ", t.numel(), " elements where ", count, " are expected");
}

struct Groups {
  int64_t samples, channels, spatial, groups;
  double eps;
};
Groups groups_of(const Call& call, const at::Tensor& x) {
  if (x.dim() < 2) refuse("an operand of rank ", x.dim());
  Groups s{x.size(0), x.size(1), 1, call.attr_int("groups"), call.attr_double("eps")};
  for (int64_t axis = 2; axis < x.dim(); ++axis) s.spatial *= x.size(axis);
  if (s.groups < 1 || s.channels % s.groups != 0) refuse(s.channels, " channels in ", s.groups, " groups");
  return s;
}

// What the two halves of a backward share: operands of one shape and type, statistics of `count` elements.
void check_norm_backward(const Call& call, int64_t statistics, bool input_half) {
  const at::Tensor g = call.in(0), x = call.in(1);
  want_shape(g, x.sizes(), "the gradient");
  want_same_dtype(g, x);
  want_count(call.in(2), statistics, "input 2");
  want_count(call.in(3), statistics, "input 3");
  want_count(call.in(4), x.size(1), "the weight");
  if (input_half) {
    want_shape(call.out(0), x.sizes(), "the output");
    return;
  }
  want_count(call.out(0), x.size(1), "output 0");
  want_count(call.out(1), x.size(1), "output 1");
}

}  // namespace

std::unique_ptr<PreparedKernel> bind_group_norm(const Call& call) {
  const at::Tensor x = call.in(0);
  const Groups s = groups_of(call, x);
  want_shape(call.out(0), x.sizes(), "the output");
  want_count(call.in(1), s.channels, "the weight");
  want_count(call.in(2), s.channels, "the bias");
  want_count(call.out(1), s.samples * s.groups, "output 1");
  want_count(call.out(2), s.samples * s.groups, "output 2");
  return make_kernel(
      call, [y = call.out(0), mean = call.out(1), rstd = call.out(2), x, w = call.in(1), b = call.in(2), s]() mutable {
        const auto result = at::native_group_norm(dense(x), optional(w), optional(b), s.samples, s.channels, s.spatial,
                                                  s.groups, s.eps);
        y.copy_(std::get<0>(result));
        store_statistic(mean, std::get<1>(result));
        store_statistic(rstd, std::get<2>(result));
      });
}

namespace {
std::unique_ptr<PreparedKernel> bind_group_norm_half(const Call& call, bool input_half) {
  const at::Tensor g = call.in(0), x = call.in(1);
  const Groups s = groups_of(call, x);
  check_norm_backward(call, s.samples * s.groups, input_half);
  return make_kernel(call, [out0 = call.out(0), out1 = call.out(1), g, x, mean = call.in(2), rstd = call.in(3),
                            weight = call.in(4), s, input_half, accumulate = call.accumulate()]() mutable {
    // LibTorch shapes the weight's gradient like the weight, which the weight half does not have.
    const at::Tensor w = input_half ? weight : scratch({s.channels}, x.scalar_type(), x).fill_(1);
    const at::Tensor m = as_type(mean, x).view({s.samples, s.groups}), r = as_type(rstd, x).view({s.samples, s.groups});
    const auto result = at::native_group_norm_backward(
        dense(g), dense(x), m, r, optional(w), s.samples, s.channels, s.spatial, s.groups,
        {input_half, !input_half && out0.defined(), !input_half && out1.defined()});
    if (input_half) {
      out0.copy_(std::get<0>(result));
      return;
    }
    if (out0.defined()) store(out0, std::get<1>(result), accumulate);
    if (out1.defined()) store(out1, std::get<2>(result), accumulate);
  });
}

std::unique_ptr<PreparedKernel> bind_batch_norm_half(const Call& call, bool input_half) {
  const at::Tensor g = call.in(0), x = call.in(1);
  if (x.dim() < 2) refuse("an operand of rank ", x.dim());
  check_norm_backward(call, x.size(1), input_half);
  const double eps = call.attr_double("eps");
  return make_kernel(call, [out0 = call.out(0), out1 = call.out(1), g, x, mean = call.in(2), rstd = call.in(3),
                            w = call.in(4), eps, input_half, accumulate = call.accumulate()]() mutable {
    const at::Tensor input = dense_computed(x);  // LibTorch wants statistics and weight of one type
    const auto result = at::native_batch_norm_backward(
        dense_computed(g), input, optional(dense_computed(w)), std::nullopt, std::nullopt, as_type(mean, input),
        as_type(rstd, input), true, eps, {input_half, !input_half && out0.defined(), !input_half && out1.defined()});
    if (input_half) {
      out0.copy_(std::get<0>(result));
      return;
    }
    if (out0.defined()) store(out0, std::get<1>(result), accumulate);
    if (out1.defined()) store(out1, std::get<2>(result), accumulate);
  });
}
}  // namespace

std::unique_ptr<PreparedKernel> bind_group_norm_backward_input(const Call& call) {
  return bind_group_norm_half(call, true);
}
std::unique_ptr<PreparedKernel> bind_group_norm_backward_weight(const Call& call) {
  return bind_group_norm_half(call, false);
}
std::unique_ptr<PreparedKernel> bind_batch_norm_backward_input(const Call& call) {
  return bind_batch_norm_half(call, true);
}
std::unique_ptr<PreparedKernel> bind_batch_norm_backward_weight(const Call& call) {
  return bind_batch_norm_half(call, false);
}

std::unique_ptr<PreparedKernel> bind_batch_norm(const Call& call) {
  const at::Tensor x = call.in(0);
  if (x.dim() < 2) refuse("an operand of rank ", x.dim());
  want_shape(call.out(0), x.sizes(), "the output");
  for (size_t i = 1; i < call.num_inputs(); ++i) want_count(call.in(i), x.size(1), "a parameter or statistic");
  want_count(call.out(1), x.size(1), "output 1");
  want_count(call.out(2), x.size(1), "output 2");
  return make_kernel(call, [y = call.out(0), mean = call.out(1), rstd = call.out(2), x, w = call.in(1), b = call.in(2),
                            running_mean = state(call.in(3)), running_var = state(call.in(4)),
                            momentum = call.attr_double("momentum"), eps = call.attr_double("eps")]() mutable {
    const auto result =
        at::native_batch_norm(dense(x), optional(w), optional(b), running_mean, running_var, true, momentum, eps);
    y.copy_(std::get<0>(result));
    store_statistic(mean, std::get<1>(result));
    store_statistic(rstd, std::get<2>(result));
  });
}

}  // namespace piper::kernels::library
