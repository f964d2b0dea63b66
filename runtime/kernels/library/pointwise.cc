// Element-wise kernels. LibTorch's iterators take strided and broadcast operands and do not allocate.
#include <ATen/ops/abs.h>
#include <ATen/ops/add.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/div.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/le.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/log_sigmoid_forward.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/logical_not.h>
#include <ATen/ops/logical_or.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/polygamma.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/sign.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/where.h>

#include <cmath>
#include <optional>

#include "runtime/kernels/binding.h"

namespace piper::kernels::library {
namespace {

void check_unary(const Call& call) {
  want_shape(call.out(0), call.in(0).sizes(), "the output");
  want_same_dtype(call.out(0), call.in(0));
}
void check_binary(const Call& call) {
  want_broadcast(call.out(0), {call.in(0), call.in(1)});
  want_same_dtype(call.in(0), call.in(1));
}
void check_arithmetic(const Call& call) {
  check_binary(call);
  want_same_dtype(call.out(0), call.in(0));
}
// An integer tensor wants an integer scalar, or the result would be a floating one.
at::Scalar scalar_for(const at::Tensor& t, double value) {
  return at::isFloatingType(t.scalar_type()) ? at::Scalar(value) : at::Scalar(static_cast<int64_t>(value));
}

}  // namespace

#define PIPER_UNARY(name)                                                                            \
  std::unique_ptr<PreparedKernel> bind_##name(const Call& call) {                                    \
    check_unary(call);                                                                               \
    return make_kernel(call, [y = call.out(0), x = call.in(0)]() mutable { at::name##_out(y, x); }); \
  }
PIPER_UNARY(neg)
PIPER_UNARY(abs)
PIPER_UNARY(sign)
PIPER_UNARY(softplus)
PIPER_UNARY(logical_not)
#undef PIPER_UNARY

#define PIPER_BINARY(name, check)                                                                                 \
  std::unique_ptr<PreparedKernel> bind_##name(const Call& call) {                                                 \
    check(call);                                                                                                  \
    return make_kernel(call,                                                                                      \
                       [y = call.out(0), a = call.in(0), b = call.in(1)]() mutable { at::name##_out(y, a, b); }); \
  }
PIPER_BINARY(add, check_arithmetic)
PIPER_BINARY(sub, check_arithmetic)
PIPER_BINARY(mul, check_arithmetic)
PIPER_BINARY(maximum, check_arithmetic)
PIPER_BINARY(minimum, check_arithmetic)
PIPER_BINARY(eq, check_binary)
PIPER_BINARY(ne, check_binary)
PIPER_BINARY(lt, check_binary)
PIPER_BINARY(le, check_binary)
PIPER_BINARY(gt, check_binary)
PIPER_BINARY(ge, check_binary)
PIPER_BINARY(logical_and, check_binary)
PIPER_BINARY(logical_or, check_binary)
#undef PIPER_BINARY

std::unique_ptr<PreparedKernel> bind_div(const Call& call) {
  check_arithmetic(call);
  if (at::isFloatingType(call.in(0).scalar_type()))
    return make_kernel(call, [y = call.out(0), a = call.in(0), b = call.in(1)]() mutable { at::div_out(y, a, b); });
  return make_kernel(call,
                     [y = call.out(0), a = call.in(0), b = call.in(1)]() mutable { at::div_out(y, a, b, "floor"); });
}

std::unique_ptr<PreparedKernel> bind_isnan(const Call& call) {
  want_shape(call.out(0), call.in(0).sizes(), "the output");
  return make_kernel(call, [y = call.out(0), x = call.in(0)]() mutable { at::ne_out(y, x, x); });
}

// relu_out makes a copy first; clamping below does not, and keeps NaN as relu does.
std::unique_ptr<PreparedKernel> bind_relu(const Call& call) {
  check_unary(call);
  return make_kernel(
      call, [y = call.out(0), x = call.in(0), zero = at::Scalar(0)]() mutable { at::clamp_min_out(y, x, zero); });
}

std::unique_ptr<PreparedKernel> bind_leaky_relu(const Call& call) {
  check_unary(call);
  return make_kernel(call, [y = call.out(0), x = call.in(0), slope = at::Scalar(call.attr_double("slope"))]() mutable {
    at::leaky_relu_out(y, x, slope);
  });
}

std::unique_ptr<PreparedKernel> bind_log_sigmoid(const Call& call) {
  check_unary(call);
  return make_kernel(call, [y = call.out(0), x = call.in(0)]() mutable {
    at::Tensor buffer = scratch_like(x);
    produce(y, false, [&](at::Tensor& dense_y) { at::log_sigmoid_forward_out(dense_y, buffer, x); });
  });
}

std::unique_ptr<PreparedKernel> bind_pow_scalar(const Call& call) {
  check_unary(call);
  return make_kernel(call, [y = call.out(0), x = call.in(0),
                            exponent = scalar_for(call.in(0), call.attr_double("exponent"))]() mutable {
    at::pow_out(y, x, exponent);
  });
}

std::unique_ptr<PreparedKernel> bind_polygamma(const Call& call) {
  check_unary(call);
  return make_kernel(
      call, [y = call.out(0), x = call.in(0), n = call.attr_int("n")]() mutable { at::polygamma_out(y, n, x); });
}

std::unique_ptr<PreparedKernel> bind_clamp(const Call& call) {
  check_unary(call);
  std::optional<at::Scalar> low, high;
  if (const double value = call.attr_double("min"); !std::isinf(value)) low = scalar_for(call.in(0), value);
  if (const double value = call.attr_double("max"); !std::isinf(value)) high = scalar_for(call.in(0), value);
  if (!low && !high) return make_kernel(call, [y = call.out(0), x = call.in(0)]() mutable { y.copy_(x); });
  return make_kernel(call, [y = call.out(0), x = call.in(0), low, high]() mutable { at::clamp_out(y, x, low, high); });
}

std::unique_ptr<PreparedKernel> bind_where(const Call& call) {
  want_dtype(call.in(0), at::kBool, "the condition");
  want_broadcast(call.out(0), {call.in(0), call.in(1), call.in(2)});
  want_same_dtype(call.in(1), call.in(2));
  want_same_dtype(call.out(0), call.in(1));
  return make_kernel(
      call, [y = call.out(0), c = call.in(0), a = call.in(1), b = call.in(2)]() mutable { at::where_out(y, c, a, b); });
}

}  // namespace piper::kernels::library
