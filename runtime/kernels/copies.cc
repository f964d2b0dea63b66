// Copies, casts, sums of two operands, and fills.
#include "runtime/kernels/binding.h"
#include "runtime/kernels/element_type.h"

namespace piper::kernels {
namespace {

// y += x, of several types: LibTorch converts what it adds into memory of its own, so in pieces that stay small.
void add_converted(const at::Tensor& y, const at::Tensor& x) {
  constexpr int64_t kPiece = 4096;
  if (x.dim() == 0 || x.numel() <= kPiece) {
    y.add_(x);
    return;
  }
  if (x.is_contiguous() && y.is_contiguous() && y.scalar_type() == at::kFloat && x.scalar_type() != at::kDouble) {
    auto* to = y.mutable_data_ptr<float>();
    for_each_f32_block(x, [&](int64_t i, const float* values, int64_t count) { add_f32(to + i, values, count); });
    return;
  }
  for (int64_t i = 0; i < x.size(0); ++i) add_converted(y.select(0, i), x.select(0, i));
}

}  // namespace

std::unique_ptr<PreparedKernel> bind_cast(const Call& call) {
  want_shape(call.out(0), call.in(0).sizes(), "the output");
  if (call.accumulate()) {
    for (const at::Tensor& t : {call.out(0), call.in(0)})
      if (!at::isFloatingType(t.scalar_type())) refuse("a sum of element type ", toString(t.scalar_type()));
    return make_kernel(call, [y = call.out(0), x = call.in(0)] { add_converted(y, x); });
  }
  return make_kernel(call, [y = call.out(0), x = call.in(0)]() mutable { y.copy_(x); });
}

std::unique_ptr<PreparedKernel> bind_fill(const Call& call) {
  return make_kernel(call,
                     [y = call.out(0), value = at::Scalar(call.attr_double("value"))]() mutable { y.fill_(value); });
}

std::unique_ptr<PreparedKernel> bind_copy(const Call& call) {
  want_shape(call.out(0), call.in(0).sizes(), "the output");
  want_same_dtype(call.out(0), call.in(0));
  if (call.accumulate()) return make_kernel(call, [y = call.out(0), x = call.in(0)]() mutable { y.add_(x); });
  return make_kernel(call, [y = call.out(0), x = call.in(0)]() mutable { y.copy_(x); });
}

std::unique_ptr<PreparedKernel> bind_add_into(const Call& call) {
  want_shape(call.out(0), call.in(0).sizes(), "the output");
  want_same_dtype(call.out(0), call.in(0));
  return make_kernel(call, [y = call.out(0), x = call.in(0)]() mutable { y.add_(x); });
}

}  // namespace piper::kernels
