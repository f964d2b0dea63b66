// The binders of look-ups and scatters.
#include <algorithm>

#include "runtime/kernels/cuda/bound_call.h"
#include "runtime/kernels/cuda/copies.h"
#include "runtime/kernels/cuda/indexing.h"

namespace piper::kernels::cuda {
namespace {

const int64_t* indices(const View& index) {
  want_dtype(index, DType::kI64, "the index");
  return reinterpret_cast<const int64_t*>(index.data);
}
// A scalar is a list of one.
View of_rank_1(View view) {
  if (view.rank() > 0) return view;
  view.shape = view.strides = {1};
  return view;
}
StridedElements strided(const View& view) { return {view.data, view.dtype, view.layout()}; }

// For an axis of `extent`, with the operand that says the place of a part.
PlaceOfPart part_of(const BoundCall& call, size_t operand, int64_t extent) {
  const View& place = call.in(operand);
  if (!place.defined) return {};
  want_dtype(place, DType::kI64, "the place");
  want_shape(place, {1}, "the place");
  return {reinterpret_cast<const int64_t*>(place.data), extent, call.attr_int("whole")};
}

// y[e] = x[e + step index[e]]; x and the index of y's shape, `extent` places on the axis of the index.
MadeKernel look_up(const BoundCall& call, const View& y, const View& x, int64_t step, int64_t extent, const View& index,
                   FaultKind fault, PlaceOfPart part = {}) {
  LookUp l;
  l.element_bytes = static_cast<int>(dtype_bytes(y.dtype));
  l.count = y.elements();
  l.y = y.data;
  l.y_layout = y.layout();
  l.x = x.data;
  l.x_layout = x.layout();
  l.x_step = step;
  l.extent = extent;
  l.index = indices(index);
  l.index_layout = index.layout();
  l.fault_kind = fault;
  l.part = part;
  l.fault = call.fault();
  return make_kernel([l](cudaStream_t stream) { launch_look_up(l, stream); });
}
// x for places on `axis`.
MadeKernel look_up(const BoundCall& call, const View& y, const View& x, int64_t axis, const View& index) {
  View base = x;
  base.shape = y.shape;
  base.strides[static_cast<size_t>(axis)] = 0;
  return look_up(call, y, base, x.stride(axis), x.extent(axis), index, FaultKind::kIndex);
}
// `list` along `axis` of `like`, repeated on the others.
View along(const View& list, const View& like, int64_t axis) {
  View view = list;
  view.shape = like.shape;
  view.strides.assign(like.shape.size(), 0);
  view.strides[static_cast<size_t>(axis)] = list.rank() > 0 ? list.stride(0) : 1;
  return view;
}
View without(View view, int64_t axis) {
  view.shape.erase(view.shape.begin() + axis);
  view.strides.erase(view.strides.begin() + axis);
  return view;
}

// The base of scatters: y becomes x, unless it is x.
std::pair<StridedElements, StridedElements> base_of(const BoundCall& call) {
  want_shape(call.out(0), call.in(0).shape, "the output");
  want_same_dtype(call.out(0), call.in(0));
  want_same_dtype(call.in(2), call.in(0));
  return {strided(call.out(0)), strided(call.in(0))};
}
void copy_base(const std::pair<StridedElements, StridedElements>& base, int64_t count, cudaStream_t stream) {
  if (base.first.data != base.second.data) launch_copy(base.first, base.second, count, CopyMode::kCopy, stream);
}

}  // namespace

MadeKernel bind_embedding(const BoundCall& call) {
  const View &table = call.in(0), &y = call.out(0);
  View index = call.in(1);
  if (table.rank() != 2) refuse("the table is not a matrix");
  index.shape.push_back(table.extent(1));
  index.strides.push_back(0);
  want_shape(y, index.shape, "the output");
  want_same_dtype(y, table);
  View columns = table;
  columns.shape = y.shape;
  columns.strides.assign(y.shape.size(), 0);
  columns.strides.back() = table.stride(1);
  return look_up(call, y, columns, table.stride(0), table.extent(0), index, FaultKind::kTableRow,
                 part_of(call, 2, table.extent(0)));
}

MadeKernel bind_gather(const BoundCall& call) {
  const View x = of_rank_1(call.in(0)), index = of_rank_1(call.in(1)), y = of_rank_1(call.out(0));
  want_shape(call.out(0), call.in(1).shape, "the output");
  want_same_dtype(y, x);
  const int64_t axis = want_axis(x, call.attr_int("dim"));
  if (index.rank() != x.rank()) refuse("an index of rank ", index.rank(), " for rank ", x.rank());
  for (int64_t other = 0; other < x.rank(); ++other)
    if (other != axis && index.extent(other) > x.extent(other))
      refuse("an index of ", text_of(index.shape), " for ", text_of(x.shape));
  return look_up(call, y, x, axis, index);
}

MadeKernel bind_index_select(const BoundCall& call) {
  const View x = of_rank_1(call.in(0)), y = of_rank_1(call.out(0));
  const View& index = call.in(1);
  if (index.rank() > 1) refuse("the index is not a list");
  const int64_t axis = want_axis(x, call.attr_int("dim"));
  Shape shape = x.shape;
  shape[static_cast<size_t>(axis)] = index.elements();
  want_shape(y, shape, "the output");
  want_same_dtype(y, x);
  return look_up(call, y, x, axis, along(index, y, axis));
}

MadeKernel bind_scatter(const BoundCall& call) {
  const auto base = base_of(call);
  const View y = of_rank_1(call.out(0)), index = of_rank_1(call.in(1)), source = of_rank_1(call.in(2));
  const int64_t axis = want_axis(y, call.attr_int("dim"));
  if (index.rank() != y.rank() || source.rank() != y.rank()) refuse("operands of different rank");
  for (int64_t other = 0; other < y.rank(); ++other)
    if (index.extent(other) > source.extent(other) || (other != axis && index.extent(other) > y.extent(other)))
      refuse("an index of ", text_of(index.shape), " from ", text_of(source.shape), " to ", text_of(y.shape));
  const auto lines = [&](View view) {
    view.shape = index.shape;
    return without(view, axis).layout();
  };
  Scatter s;
  s.type = y.dtype;
  s.adds = call.name() == "scatter_add";
  s.steps = index.extent(axis);
  s.lines = without(index, axis).elements();
  s.y = y.data;
  s.y_line = lines(y);
  s.y_step = y.stride(axis);
  s.extent = y.extent(axis);
  s.source = source.data;
  s.source_line = lines(source);
  s.source_step = source.stride(axis);
  s.index = indices(index);
  s.index_line = lines(index);
  s.index_step = index.stride(axis);
  s.fault = call.fault();
  return make_kernel([s, base, count = y.elements()](cudaStream_t stream) {
    copy_base(base, count, stream);
    launch_scatter(s, stream);
  });
}

MadeKernel bind_index_add(const BoundCall& call) {
  const auto base = base_of(call);
  const View y = of_rank_1(call.out(0)), source = of_rank_1(call.in(2));
  const View& index = call.in(1);
  if (index.rank() > 1) refuse("the index is not a list");
  const int64_t axis = want_axis(y, call.attr_int("dim"));
  Shape shape = y.shape;
  shape[static_cast<size_t>(axis)] = index.elements();
  want_shape(source, shape, "the source");
  AddRows a;
  a.type = y.dtype;
  a.rows = index.elements();
  a.columns = without(source, axis).elements();
  a.y = y.data;
  a.y_column = without(y, axis).layout();
  a.y_step = y.stride(axis);
  a.extent = y.extent(axis);
  a.source = source.data;
  a.source_row = source.layout(axis, axis + 1);
  a.source_column = without(source, axis).layout();
  a.index = indices(index);
  a.index_row = index.layout();
  a.fault = call.fault();
  return make_kernel([a, base, count = y.elements()](cudaStream_t stream) {
    copy_base(base, count, stream);
    launch_add_rows(a, stream);
  });
}

MadeKernel bind_embedding_backward(const BoundCall& call) {
  const View &g = call.in(0), &index = call.in(1), &dw = call.out(0);
  if (dw.rank() != 2) refuse("the output is not a matrix");
  want_shape(dw, call.attr_ints("shape"), "the output");
  Shape shape = index.shape;
  shape.push_back(dw.extent(1));
  want_shape(g, shape, "the gradient");
  want_same_dtype(g, dw);
  AddRows a;
  a.type = dw.dtype;
  a.rows = index.elements();
  a.columns = dw.extent(1);
  a.y = dw.data;
  a.y_column = dw.layout(1, 2);
  a.y_step = dw.stride(0);
  a.extent = dw.extent(0);
  a.source = g.data;
  a.source_row = g.layout(0, g.rank() - 1);
  a.source_column = g.layout(g.rank() - 1, g.rank());
  a.index = indices(index);
  a.index_row = index.layout();
  a.padding = call.attr_int("padding_idx");
  a.by_frequency = call.attr_bool("scale_grad_by_freq");
  a.part = part_of(call, 2, dw.extent(0));
  if (a.part.place != nullptr && a.by_frequency) refuse("a part of a table by frequency");
  a.fault = call.fault();
  return make_kernel([a, dw = strided(dw), count = dw.elements(), accumulate = call.accumulate()](cudaStream_t stream) {
    if (!accumulate) launch_fill(dw, count, 0, stream);
    launch_add_rows(a, stream);
  });
}

}  // namespace piper::kernels::cuda
