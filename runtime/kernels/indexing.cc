// Look-ups and scatters.
#include <ATen/ops/gather.h>
#include <ATen/ops/index_select.h>

#include "runtime/kernels/binding.h"
#include "runtime/kernels/own_part.h"

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
  at::Tensor result = scratch({flat_index.numel(), table.size(1)}, table.scalar_type(), table);
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

// For a table of which a place has some rows: its own, and zeros for the others.
void select_own_rows(at::Tensor& y, const at::Tensor& table, const at::Tensor& index, const OwnPart& own) {
  const at::Tensor flat = dense(index).view({-1});
  const int64_t* ids = flat.const_data_ptr<int64_t>();
  at::Tensor rows = merged_axes(y, 0, y.dim() - 1);
  const bool in_place = rows.defined();
  if (!in_place) rows = scratch({flat.numel(), table.size(1)}, table.scalar_type(), table);
  rows.zero_();
  for (int64_t i = 0; i < flat.numel(); ++i) {
    if (ids[i] < 0 || ids[i] >= own.whole)
      refuse("index ", ids[i], " lies outside of the table, which has ", own.whole, " rows");
    if (own.has(ids[i])) rows.select(0, i).copy_(table.select(0, ids[i] - own.first));
  }
  if (!in_place) y.copy_(rows.view(y.sizes()));
}

// dw[index[i] - first, :] += rows[i, :] of those rows that are the place's own and no padding, in their order.
void add_own_rows(const at::Tensor& dw, const at::Tensor& flat, const at::Tensor& rows, int64_t padding,
                  const OwnPart& own) {
  const int64_t* ids = flat.const_data_ptr<int64_t>();
  const auto adds = [&](int64_t i) { return own.has(ids[i]) && ids[i] != padding; };
  int64_t count = 0;
  for (int64_t i = 0; i < flat.numel(); ++i) {
    if (ids[i] < 0 || ids[i] >= own.whole) refuse("index ", ids[i], " outside of 0..", own.whole - 1);
    count += adds(i) ? 1 : 0;
  }
  at::Tensor from = scratch({count}, at::kLong, rows), to = scratch({count}, at::kLong, rows);
  for (int64_t i = 0, next = 0; i < flat.numel(); ++i) {
    if (!adds(i)) continue;
    from.mutable_data_ptr<int64_t>()[next] = i;
    to.mutable_data_ptr<int64_t>()[next++] = ids[i] - own.first;
  }
  at::Tensor kept = scratch({count, rows.size(1)}, rows.scalar_type(), rows);
  at::index_select_out(kept, rows, 0, from);
  dw.index_add_(0, to, kept);
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
  const PlaceOfPart part(call, call.in(2), table.size(0));
  return make_kernel(call, [y = call.out(0), table, index, part]() mutable {
    if (part.is_part()) return select_own_rows(y, table, index, part.now());
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
  const PlaceOfPart part(call, call.in(2), dw.size(0));
  if (part.is_part() && by_frequency) refuse("a part of a table by frequency");
  return make_kernel(call, [dw, g, index, padding, by_frequency, part, accumulate = call.accumulate()]() mutable {
    if (!accumulate) dw.zero_();
    const at::Tensor flat = dense(index).view({-1});
    at::Tensor rows = merged_axes(g, 0, g.dim() - 1);
    if (!rows.defined()) rows = dense(g).view({-1, g.size(-1)});
    if (part.is_part()) return add_own_rows(dw, flat, rows, padding, part.now());
    if (padding < 0 && !by_frequency) {
      dw.index_add_(0, flat, rows);
      return;
    }
    const int64_t* ids = flat.const_data_ptr<int64_t>();
    const int64_t count = flat.numel(), vocabulary = dw.size(0);
    for (int64_t i = 0; i < count; ++i)
      if (ids[i] < 0 || ids[i] >= vocabulary) refuse("index ", ids[i], " outside of 0..", vocabulary - 1);
    at::Tensor kept = scratch({count}, at::kLong, rows), weight = scratch({count, 1}, rows.scalar_type(), rows);
    weight.fill_(1);
    int64_t* kept_ids = kept.mutable_data_ptr<int64_t>();
    for (int64_t i = 0; i < count; ++i) kept_ids[i] = ids[i];
    if (by_frequency) {
      at::Tensor frequency = scratch({vocabulary}, at::kLong, rows);
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
// y = x, then write(y, dim, index, source).
template <class Write>
std::unique_ptr<PreparedKernel> bind_written(const Call& call, Write write) {
  check_scatter(call);
  return make_kernel(call, [y = call.out(0), x = call.in(0), index = call.in(1), source = call.in(2),
                            dim = call.attr_int("dim"), write]() mutable {
    copy_base(y, x);
    write(y, dim, index, source);
  });
}
}  // namespace

std::unique_ptr<PreparedKernel> bind_scatter(const Call& call) {
  return bind_written(call, [](at::Tensor& y, int64_t dim, const at::Tensor& index, const at::Tensor& source) {
    y.scatter_(dim, index, source);
  });
}
std::unique_ptr<PreparedKernel> bind_scatter_add(const Call& call) {
  return bind_written(call, [](at::Tensor& y, int64_t dim, const at::Tensor& index, const at::Tensor& source) {
    y.scatter_add_(dim, index, source);
  });
}
std::unique_ptr<PreparedKernel> bind_index_add(const Call& call) {
  return bind_written(call, [](at::Tensor& y, int64_t dim, const at::Tensor& index, const at::Tensor& source) {
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

}  // namespace piper::kernels
