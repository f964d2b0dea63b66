// Reductions and scans.
#include <ATen/ops/amax.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/div.h>
#include <ATen/ops/max.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/topk.h>

#include <algorithm>

#include "runtime/kernels/binding.h"

namespace piper::kernels::library {
namespace {

struct Reduction {
  std::vector<int64_t> dims;
  bool keepdim = false;
  int64_t count = 1;  // elements that become one
};

Reduction check_reduction(const Call& call) {
  const at::Tensor x = call.in(0);
  Reduction r{call.attr_ints("dims"), call.attr_bool("keepdim"), 1};
  std::vector<bool> reduced(static_cast<size_t>(x.dim()), false);
  for (int64_t dim : r.dims) {
    if (dim < 0 || dim >= x.dim() || reduced[static_cast<size_t>(dim)]) refuse("axis ", dim, " cannot be reduced");
    reduced[static_cast<size_t>(dim)] = true;
    r.count *= x.size(dim);
  }
  std::vector<int64_t> shape;
  for (int64_t axis = 0; axis < x.dim(); ++axis) {
    if (!reduced[static_cast<size_t>(axis)]) shape.push_back(x.size(axis));
    else if (r.keepdim) shape.push_back(1);
  }
  want_shape(call.out(0), shape, "the output");
  want_same_dtype(call.out(0), x);
  return r;
}

// LibTorch reads an empty list of axes as all axes; here nothing is reduced then.
std::unique_ptr<PreparedKernel> bind_sum_scaled(const Call& call, bool mean) {
  const Reduction r = check_reduction(call);
  if (r.dims.empty())
    return make_kernel(
        call, [y = call.out(0), x = call.in(0), accumulate = call.accumulate()]() mutable { store(y, x, accumulate); });
  // A tensor, because a plain number would become one at every run; of the CPU, which operators of every device read.
  at::Tensor divisor;
  if (mean) divisor = at::scalar_tensor(r.count, call.in(0).options().device(at::kCPU));
  return make_kernel(call, [y = call.out(0), x = call.in(0), r, divisor, accumulate = call.accumulate()]() mutable {
    at::Tensor result = accumulate ? scratch_like(y) : y;
    at::sum_out(result, x, r.dims, r.keepdim);
    if (divisor.defined()) at::div_out(result, result, divisor);
    if (accumulate) y.add_(result);
  });
}

void check_selection(const Call& call, int64_t k) {
  const at::Tensor x = call.in(0);
  const int64_t dim = want_axis(x, call.attr_int("dim"));
  if (x.dim() > 0 && (k < 1 || k > x.size(dim))) refuse("attribute `k` is ", k, " for ", x.size(dim), " elements");
  std::vector<int64_t> shape = x.sizes().vec();
  if (!shape.empty()) shape[static_cast<size_t>(dim)] = k;
  want_same_dtype(call.out(0), x);
  want_shape(call.out(0), shape, "output 0");
  if (!call.out(1).defined()) return;
  want_dtype(call.out(1), at::kLong, "output 1");
  want_shape(call.out(1), shape, "output 1");
}

}  // namespace

std::unique_ptr<PreparedKernel> bind_sum(const Call& call) { return bind_sum_scaled(call, false); }
std::unique_ptr<PreparedKernel> bind_mean(const Call& call) { return bind_sum_scaled(call, true); }

std::unique_ptr<PreparedKernel> bind_amax(const Call& call) {
  const Reduction r = check_reduction(call);
  if (r.dims.empty()) return make_kernel(call, [y = call.out(0), x = call.in(0)]() mutable { y.copy_(x); });
  return make_kernel(call, [y = call.out(0), x = call.in(0), r]() mutable { at::amax_out(y, x, r.dims, r.keepdim); });
}

std::unique_ptr<PreparedKernel> bind_max_dim(const Call& call) {
  check_selection(call, 1);
  return make_kernel(call, [y = call.out(0), i = call.out(1), x = call.in(0), dim = call.attr_int("dim")]() mutable {
    at::Tensor indices = i.defined() ? i : scratch(y.sizes(), at::kLong, y);
    at::max_out(y, indices, x, dim, true);
  });
}

std::unique_ptr<PreparedKernel> bind_topk(const Call& call) {
  const int64_t k = call.attr_int("k");
  check_selection(call, k);
  // All elements of the axis make a sort, whose ties are in index order: topk leaves theirs open.
  if (call.in(0).dim() > 0 && k == call.in(0).size(call.attr_int("dim")))
    return make_kernel(call, [y = call.out(0), i = call.out(1), x = call.in(0), dim = call.attr_int("dim")]() mutable {
      at::Tensor indices = i.defined() ? i : scratch(y.sizes(), at::kLong, y);
      at::sort_out(y, indices, x, /*stable=*/true, dim, /*descending=*/true);
    });
  return make_kernel(call, [y = call.out(0), i = call.out(1), x = call.in(0), dim = call.attr_int("dim"), k]() mutable {
    at::Tensor indices = i.defined() ? i : scratch(y.sizes(), at::kLong, y);
    at::topk_out(y, indices, x, k, dim, true, true);
  });
}

std::unique_ptr<PreparedKernel> bind_cumsum(const Call& call) {
  want_shape(call.out(0), call.in(0).sizes(), "the output");
  want_same_dtype(call.out(0), call.in(0));
  return make_kernel(call,
                     [y = call.out(0), x = call.in(0), dim = want_axis(call.in(0), call.attr_int("dim"))]() mutable {
                       at::cumsum_out(y, x, dim);
                     });
}

}  // namespace piper::kernels::library
