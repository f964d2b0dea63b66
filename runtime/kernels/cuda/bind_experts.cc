// The binders of expert_order, take_rows and the grouped kernels.
#include <algorithm>

#include "runtime/kernels/cuda/bound_call.h"
#include "runtime/kernels/cuda/experts.h"
#include "runtime/kernels/cuda/grouped_products.h"

namespace piper::kernels::cuda {
namespace {

constexpr int64_t kMostExperts = 8192;  // counts of the kernel's own, and blocks

Numbers numbers(const View& view) {
  if (!view.defined) return {};
  want_dtype(view, DType::kI64, "an operand");
  if (view.rank() != 1) refuse("an operand of ", text_of(view.shape), " is not a list");
  return {reinterpret_cast<int64_t*>(view.data), view.stride(0)};
}
// All but the first axis are a row.
GroupRows rows_of(const View& view) {
  if (view.rank() < 1) refuse("an operand of rank 0");
  return {view.data, view.stride(0), view.layout(1, view.rank())};
}
int64_t columns_of(const View& view) {
  int64_t columns = 1;
  for (int64_t axis = 1; axis < view.rank(); ++axis) columns *= view.extent(axis);
  return columns;
}
GroupCounts counts_of(const BoundCall& call, const View& counts, int64_t rows, int64_t experts) {
  want_dtype(counts, DType::kI64, "the counts");
  if (counts.rank() != 2 || counts.extent(1) != experts)
    refuse("the counts have shape ", text_of(counts.shape), " for ", experts, " experts");
  if (counts.extent(0) < 1 || rows % counts.extent(0) != 0) refuse(rows, " rows in ", counts.extent(0), " segments");
  if (experts > kMostExperts) refuse(experts, " experts");
  return {reinterpret_cast<const int64_t*>(counts.data),
          counts.stride(0),
          counts.stride(1),
          counts.extent(0),
          experts,
          rows,
          call.fault()};
}

}  // namespace

MadeKernel bind_expert_order(const BoundCall& call) {
  const View &ids = call.in(0), &order = call.out(0), &position = call.out(1), &counts = call.out(2),
             &dropped = call.out(3);
  ExpertOrder o;
  o.experts = call.attr_int("experts");
  o.segments = call.attr_int("segments");
  o.capacity = call.attr_int("capacity");
  o.strict = call.attr_bool("strict");
  if (o.experts < 1 || o.experts > kMostExperts || o.segments < 1 || o.experts % o.segments != 0 || o.capacity < 0)
    refuse("attributes that do not fit each other");
  o.ids = numbers(ids);
  o.rows = ids.extent(0);
  const int64_t per_segment = o.experts / o.segments;
  o.segment_rows = o.capacity >= o.rows ? o.rows : std::min(o.rows, o.capacity * per_segment);
  want_shape(order, {o.segments * o.segment_rows}, "the order");
  o.order = numbers(order);
  if (position.defined) want_shape(position, ids.shape, "the positions");
  o.position = numbers(position);
  if (counts.defined) {
    want_dtype(counts, DType::kI64, "an operand");
    want_shape(counts, {o.segments, per_segment}, "the counts");
    o.counts = reinterpret_cast<int64_t*>(counts.data);
    o.counts_segment = counts.stride(0);
    o.counts_expert = counts.stride(1);
  }
  if (dropped.defined) {
    want_shape(dropped, {}, "the number of dropped rows");
    o.dropped = scalar_of<int64_t>(dropped, DType::kI64, "an operand");
  }
  o.asked = call.reserve<int64_t>(o.experts);
  o.fault = call.fault();
  return make_kernel([o](cudaStream_t stream) { launch_expert_order(o, stream); });
}

MadeKernel bind_take_rows(const BoundCall& call) {
  const View &x = call.in(0), &index = call.in(1), &y = call.out(0);
  TakeRows t;
  t.repeat = call.attr_int("repeat");
  if (t.repeat < 1 || x.rank() < 1) refuse("no rows to take");
  t.index = numbers(index);
  t.indices = x.extent(0) * t.repeat;
  want_shape(call.in(2), {t.indices}, "the inverse");
  Shape shape = x.shape;
  shape[0] = index.extent(0);
  want_shape(y, shape, "the output");
  want_same_dtype(y, x);
  t.element_bytes = static_cast<int>(dtype_bytes(x.dtype));
  t.rows = index.extent(0);
  t.columns = columns_of(x);
  t.x = rows_of(x);
  t.y = rows_of(y);
  t.fault = call.fault();
  return make_kernel([t](cudaStream_t stream) { launch_take_rows(t, stream); });
}

MadeKernel bind_grouped_matmul(const BoundCall& call) {
  const View &x = call.in(0), &w = call.in(1), &y = call.out(0);
  want_same_dtype(y, x);
  want_same_dtype(y, w);
  want_floating(y);
  if (x.rank() != 2 || w.rank() != 3) refuse("operands of rank ", x.rank(), " and ", w.rank());
  const int64_t inner = call.attr_bool("transposed") ? 2 : 1, columns = 3 - inner;
  if (x.extent(1) != w.extent(inner)) refuse("inner extents ", x.extent(1), " and ", w.extent(inner), " differ");
  want_shape(y, {x.extent(0), w.extent(columns)}, "the output");
  GroupedMatmul p;
  p.type = y.dtype;
  p.inner = x.extent(1);
  p.columns = y.extent(1);
  p.x = {x.data, x.stride(0), x.stride(1)};
  p.y = {y.data, y.stride(0), y.stride(1)};
  p.w = {w.data, w.stride(inner), w.stride(columns)};
  p.w_expert = w.stride(0);
  p.counts = counts_of(call, call.in(2), x.extent(0), w.extent(0));
  p.accumulate = call.accumulate();
  return make_kernel([p](cudaStream_t stream) { launch_grouped_matmul(p, stream); });
}

MadeKernel bind_grouped_matmul_weight(const BoundCall& call) {
  const View &a = call.in(0), &b = call.in(1), &w = call.out(0);
  want_same_dtype(w, a);
  want_same_dtype(w, b);
  want_floating(w);
  if (a.rank() != 2 || b.rank() != 2 || a.extent(0) != b.extent(0))
    refuse("operands of shapes ", text_of(a.shape), " and ", text_of(b.shape));
  if (w.rank() != 3) refuse("an output of rank ", w.rank());
  want_shape(w, {w.extent(0), a.extent(1), b.extent(1)}, "the output");
  GroupedMatmulWeight p;
  p.type = w.dtype;
  p.rows_of_w = w.extent(1);
  p.columns = w.extent(2);
  p.a = {a.data, a.stride(0), a.stride(1)};
  p.b = {b.data, b.stride(0), b.stride(1)};
  p.w = {w.data, w.stride(1), w.stride(2)};
  p.w_expert = w.stride(0);
  p.counts = counts_of(call, call.in(2), a.extent(0), w.extent(0));
  p.accumulate = call.accumulate();
  return make_kernel([p](cudaStream_t stream) { launch_grouped_matmul_weight(p, stream); });
}

MadeKernel bind_grouped_expand(const BoundCall& call) {
  const View &table = call.in(0), &y = call.out(0);
  want_same_dtype(y, table);
  if (table.rank() < 1) refuse("a table of rank 0");
  Shape shape = table.shape;
  shape[0] = call.attr_int("rows");
  want_shape(y, shape, "the output");
  const GroupedExpand expand{static_cast<int>(dtype_bytes(y.dtype)), columns_of(y), rows_of(table), rows_of(y),
                             counts_of(call, call.in(1), y.extent(0), table.extent(0))};
  return make_kernel([expand](cudaStream_t stream) { launch_grouped_expand(expand, stream); });
}

MadeKernel bind_grouped_sum(const BoundCall& call) {
  const View &x = call.in(0), &sum = call.out(0);
  want_same_dtype(sum, x);
  want_floating(x);
  if (x.rank() < 1 || sum.rank() < 1) refuse("an operand of rank 0");
  Shape shape = x.shape;
  shape[0] = sum.extent(0);
  want_shape(sum, shape, "the output");
  GroupedSum s{x.dtype,
               columns_of(x),
               rows_of(x),
               rows_of(sum),
               counts_of(call, call.in(1), x.extent(0), sum.extent(0)),
               call.accumulate(),
               false};
  // As the CPU does it, whose sums of other types or strides are made apart.
  s.from_sum = s.accumulate && !is_half(x.dtype) && sum.contiguous();
  return make_kernel([s](cudaStream_t stream) { launch_grouped_sum(s, stream); });
}

}  // namespace piper::kernels::cuda
