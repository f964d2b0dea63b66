// Concatenation, padding and the gradient of a slice: copies of parts, bound at load.
#include <algorithm>

#include "runtime/kernels/binding.h"

namespace piper::kernels::library {
namespace {

at::Tensor sliced(const at::Tensor& t, int64_t dim, int64_t start, int64_t end, int64_t step) {
  if (step < 1 || start < 0 || end < start || end > t.size(dim)) refuse("a slice outside of its axis");
  return t.slice(dim, start, end, step);
}

}  // namespace

std::unique_ptr<PreparedKernel> bind_cat(const Call& call) {
  const int64_t dim = want_axis(call.out(0), call.attr_int("dim"));
  // Parts of the output, bound now: each input is one copy.
  std::vector<std::pair<at::Tensor, at::Tensor>> parts;
  int64_t start = 0;
  for (size_t i = 0; i < call.num_inputs(); ++i) {
    const at::Tensor x = call.in(i);
    if (!x.defined() || x.dim() != call.out(0).dim()) refuse("input ", i, " has another rank than the output");
    want_same_dtype(call.out(0), x);
    const at::Tensor part = sliced(call.out(0), dim, start, start + x.size(dim), 1);
    want_shape(x, part.sizes(), "an input");
    start += x.size(dim);
    parts.emplace_back(part, x);
  }
  if (start != call.out(0).size(dim)) refuse("the inputs do not fill the output");
  return make_kernel(call, [parts]() mutable {
    for (auto& [part, x] : parts) part.copy_(x);
  });
}

std::unique_ptr<PreparedKernel> bind_pad(const Call& call) {
  const at::Tensor x = call.in(0), y = call.out(0);
  const auto low = call.attr_ints("low"), high = call.attr_ints("high");
  if (static_cast<int64_t>(low.size()) != x.dim() || low.size() != high.size() || y.dim() != x.dim())
    refuse("padding of another rank");
  want_same_dtype(y, x);
  at::Tensor from = x, to = y;
  for (int64_t axis = 0; axis < x.dim(); ++axis) {
    const int64_t below = low[static_cast<size_t>(axis)], above = high[static_cast<size_t>(axis)];
    if (y.size(axis) != x.size(axis) + below + above) refuse("the output has extent ", y.size(axis), " on axis ", axis);
    from = sliced(from, axis, std::max<int64_t>(0, -below), x.size(axis) - std::max<int64_t>(0, -above), 1);
    to = sliced(to, axis, std::max<int64_t>(0, below), y.size(axis) - std::max<int64_t>(0, above), 1);
  }
  const at::Scalar value = call.attr_double("value");
  return make_kernel(call, [y, from, to, value]() mutable {
    if (to.numel() != y.numel()) y.fill_(value);
    to.copy_(from);
  });
}

std::unique_ptr<PreparedKernel> bind_slice_backward(const Call& call) {
  const at::Tensor g = call.in(0), dx = call.out(0);
  want_shape(dx, call.attr_ints("shape"), "the output");
  want_same_dtype(dx, g);
  const at::Tensor part = sliced(dx, want_axis(dx, call.attr_int("dim")), call.attr_int("start"), call.attr_int("end"),
                                 call.attr_int("step"));
  want_shape(g, part.sizes(), "the gradient");
  return make_kernel(call, [dx, part, g, accumulate = call.accumulate()]() mutable {
    if (!accumulate) dx.zero_();
    store(part, g, accumulate);
  });
}

}  // namespace piper::kernels::library
