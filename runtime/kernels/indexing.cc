// Look-ups, scatters, concatenation and padding.
#include <ATen/ops/cat.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/index_select.h>

#include <algorithm>
#include <optional>

#include "runtime/kernels/binding.h"

namespace piper::kernels {
namespace {

void want_index(const at::Tensor& index) { want_dtype(index, at::kLong, "the index"); }

// y = x, unless y is x already.
void copy_base(at::Tensor& y, const at::Tensor& x) {
  if (y.const_data_ptr() != x.const_data_ptr()) y.copy_(x);
}

// y[i, :] = table[index[i], :] for a dense index list.
void select_rows(at::Tensor& y, const at::Tensor& table, const at::Tensor& index) {
  const at::Tensor flat_index = dense(index).view({-1});
  at::Tensor rows = merged_axes(y, 0, y.dim() - 1);
  if (rows.defined()) {
    at::index_select_out(rows, table, 0, flat_index);
    return;
  }
  at::Tensor result = scratch({flat_index.numel(), table.size(1)}, table.scalar_type());
  at::index_select_out(result, table, 0, flat_index);
  y.copy_(result.view(y.sizes()));
}

// After ATen has found an index out of range: its text names neither the index nor the table.
void explain_index(const at::Tensor& index, int64_t rows) {
  const at::Tensor flat = dense(index);
  const int64_t* values = flat.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < flat.numel(); ++i)
    if (values[i] < 0 || values[i] >= rows)
      refuse("index ", values[i], " lies outside of the table, which has ", rows, " rows");
}

at::Tensor sliced(const at::Tensor& t, int64_t dim, int64_t start, int64_t end, int64_t step) {
  if (step < 1 || start < 0 || end < start || end > t.size(dim)) refuse("a slice outside of its axis");
  return t.slice(dim, start, end, step);
}

}  // namespace

std::unique_ptr<PreparedKernel> bind_embedding(const Call& call) {
  const at::Tensor table = call.in(0), index = call.in(1);
  want_index(index);
  if (table.dim() != 2) refuse("the table is not a matrix");
  std::vector<int64_t> shape = index.sizes().vec();
  shape.push_back(table.size(1));
  want_shape(call.out(0), shape, "the output");
  want_same_dtype(call.out(0), table);
  return make_kernel(call, [y = call.out(0), table, index]() mutable {
    try {
      select_rows(y, table, index);
    } catch (const c10::IndexError&) {
      explain_index(index, table.size(0));
      throw;
    }
  });
}

// Adds rows in index order, so the sum does not depend on the table's size.
std::unique_ptr<PreparedKernel> bind_embedding_backward(const Call& call) {
  const at::Tensor g = call.in(0), index = call.in(1), dw = call.out(0);
  want_index(index);
  if (dw.dim() != 2) refuse("the output is not a matrix");
  want_shape(dw, call.attr_ints("shape"), "the output");
  std::vector<int64_t> shape = index.sizes().vec();
  shape.push_back(dw.size(1));
  want_shape(g, shape, "the gradient");
  want_same_dtype(g, dw);
  const int64_t padding = call.attr_int("padding_idx");
  const bool by_frequency = call.attr_bool("scale_grad_by_freq");
  return make_kernel(call, [dw, g, index, padding, by_frequency, accumulate = call.accumulate()]() mutable {
    if (!accumulate) dw.zero_();
    const at::Tensor flat = dense(index).view({-1});
    at::Tensor rows = merged_axes(g, 0, g.dim() - 1);
    if (!rows.defined()) rows = dense(g).view({-1, g.size(-1)});
    if (padding < 0 && !by_frequency) {
      dw.index_add_(0, flat, rows);
      return;
    }
    const int64_t* ids = flat.const_data_ptr<int64_t>();
    const int64_t count = flat.numel(), vocabulary = dw.size(0);
    for (int64_t i = 0; i < count; ++i)
      if (ids[i] < 0 || ids[i] >= vocabulary) refuse("index ", ids[i], " outside of 0..", vocabulary - 1);
    at::Tensor kept = scratch({count}, at::kLong), weight = scratch({count, 1}, rows.scalar_type());
    weight.fill_(1);
    int64_t* kept_ids = kept.mutable_data_ptr<int64_t>();
    for (int64_t i = 0; i < count; ++i) kept_ids[i] = ids[i];
    if (by_frequency) {
      at::Tensor frequency = scratch({vocabulary}, at::kLong);
      frequency.zero_();
      int64_t* times = frequency.mutable_data_ptr<int64_t>();
      for (int64_t i = 0; i < count; ++i) ++times[ids[i]];
      for (int64_t i = 0; i < count; ++i) weight[i].fill_(1.0 / static_cast<double>(times[ids[i]]));
    }
    at::Tensor scaled = scratch_like(rows);
    scaled.copy_(rows);
    if (by_frequency) scaled.mul_(weight);
    for (int64_t i = 0; i < count; ++i)
      if (ids[i] == padding) scaled.select(0, i).zero_();
    dw.index_add_(0, kept, scaled);
  });
}

std::unique_ptr<PreparedKernel> bind_gather(const Call& call) {
  want_index(call.in(1));
  want_shape(call.out(0), call.in(1).sizes(), "the output");
  want_same_dtype(call.out(0), call.in(0));
  return make_kernel(
      call, [y = call.out(0), x = call.in(0), index = call.in(1),
             dim = want_axis(call.in(0), call.attr_int("dim"))]() mutable { at::gather_out(y, x, dim, index); });
}

namespace {
void check_scatter(const Call& call) {
  want_index(call.in(1));
  want_shape(call.out(0), call.in(0).sizes(), "the output");
  want_same_dtype(call.out(0), call.in(0));
  want_same_dtype(call.in(2), call.in(0));
  want_axis(call.in(0), call.attr_int("dim"));
}
}  // namespace

std::unique_ptr<PreparedKernel> bind_scatter(const Call& call) {
  check_scatter(call);
  return make_kernel(call, [y = call.out(0), x = call.in(0), index = call.in(1), source = call.in(2),
                            dim = call.attr_int("dim")]() mutable {
    copy_base(y, x);
    y.scatter_(dim, index, source);
  });
}

std::unique_ptr<PreparedKernel> bind_scatter_add(const Call& call) {
  check_scatter(call);
  return make_kernel(call, [y = call.out(0), x = call.in(0), index = call.in(1), source = call.in(2),
                            dim = call.attr_int("dim")]() mutable {
    copy_base(y, x);
    y.scatter_add_(dim, index, source);
  });
}

std::unique_ptr<PreparedKernel> bind_index_add(const Call& call) {
  check_scatter(call);
  return make_kernel(call, [y = call.out(0), x = call.in(0), index = call.in(1), source = call.in(2),
                            dim = call.attr_int("dim")]() mutable {
    copy_base(y, x);
    y.index_add_(dim, index, source);
  });
}

std::unique_ptr<PreparedKernel> bind_index_select(const Call& call) {
  const at::Tensor x = call.in(0), index = call.in(1);
  want_index(index);
  if (index.dim() > 1) refuse("the index is not a list");
  const int64_t dim = want_axis(x, call.attr_int("dim"));
  std::vector<int64_t> shape = x.sizes().vec();
  if (!shape.empty()) shape[static_cast<size_t>(dim)] = index.numel();
  want_shape(call.out(0), shape, "the output");
  want_same_dtype(call.out(0), x);
  return make_kernel(call, [y = call.out(0), x, index, dim]() mutable { at::index_select_out(y, x, dim, index); });
}

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

}  // namespace piper::kernels
