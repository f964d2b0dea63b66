// Binders of schemas/plan/elementwise.def: LibTorch's function of the row's name, on any device. Its iterators take
// strided and broadcast operands and do not allocate.
#include <ATen/Functions.h>

#include "runtime/kernels/library/binders.h"

namespace piper::kernels::library {
namespace {

// LibTorch computes some functions in f32 and f64 alone, on any device, and says so when one is called.
template <class F>
void want_known_type(const at::Tensor& like, F function) {
  if (!at::isReducedFloatingType(like.scalar_type())) return;
  try {
    function(at::ones({1}, like.scalar_type()));
  } catch (const c10::Error&) {
    throw Refusal("LibTorch does not compute it in this element type");
  }
}

template <class F>
std::unique_ptr<PreparedKernel> unary(const Call& call, F function) {
  want_shape(call.out(0), call.in(0).sizes(), "the output");
  want_same_dtype(call.out(0), call.in(0));
  want_known_type(call.in(0), [&](at::Tensor x) { function(x, x.clone()); });
  return make_kernel(call, [y = call.out(0), x = call.in(0), function]() mutable { function(y, x); });
}

template <class F>
std::unique_ptr<PreparedKernel> binary(const Call& call, F function) {
  want_broadcast(call.out(0), {call.in(0), call.in(1)});
  want_same_dtype(call.in(0), call.in(1));
  want_same_dtype(call.out(0), call.in(0));
  want_known_type(call.in(0), [&](at::Tensor x) { function(x, x.clone(), x.clone()); });
  return make_kernel(call,
                     [y = call.out(0), a = call.in(0), b = call.in(1), function]() mutable { function(y, a, b); });
}

}  // namespace

#define PIPER_UNARY(kernel, name, onnx, precision, low, high, value, derivative)          \
  std::unique_ptr<PreparedKernel> bind_##name(const Call& call) {                         \
    return unary(call, [](at::Tensor& y, const at::Tensor& x) { at::name##_out(y, x); }); \
  }
#define PIPER_BINARY(kernel, name, precision, value, of_a, of_b)                                                   \
  std::unique_ptr<PreparedKernel> bind_##name(const Call& call) {                                                  \
    return binary(call, [](at::Tensor& y, const at::Tensor& a, const at::Tensor& b) { at::name##_out(y, a, b); }); \
  }
#include "schemas/plan/elementwise.def"

void call_each_function(const at::Tensor& x) {
#define PIPER_UNARY(kernel, name, onnx, precision, low, high, value, derivative) (void)at::name(x);
#define PIPER_BINARY(kernel, name, precision, value, of_a, of_b) (void)at::name(x, x);
#include "schemas/plan/elementwise.def"
}

}  // namespace piper::kernels::library
