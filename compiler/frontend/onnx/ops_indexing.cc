// Gathers and scatters. Known indices are checked and wrapped here; those of a run-time tensor are
// taken to be in range, as PyTorch's own indices are, except where the operator allows negative ones.
#include <algorithm>
#include <numeric>

#include "compiler/frontend/onnx/ops.h"
#include "compiler/ir/shapes.h"

namespace piper::frontend::onnx {
namespace {

// `index` in [0, extent), negative ones counted from the end. A known index is checked.
ValueId wrap_index(NodeImport& n, ValueId index, int64_t extent) {
  if (!n.ok()) return index;
  index = n.cast(index, DType::kI64);
  if (std::optional<std::vector<int64_t>> all = n.known_ints(index)) {
    bool changed = false;
    for (int64_t& v : *all) {
      if (v < -extent || v >= extent) {
        n.refuse("the index " + std::to_string(v) + " lies outside an axis of extent " + std::to_string(extent));
        return index;
      }
      changed = changed || v < 0;
      if (v < 0) v += extent;
    }
    return changed ? n.constant_i64(n.shape(index), *all) : index;
  }
  const ValueId negative = n.emit(OpKind::kLt, {index, n.scalar(0, DType::kI64)});
  return n.emit(OpKind::kWhere,
                {negative, n.emit(OpKind::kAdd, {index, n.scalar(static_cast<double>(extent), DType::kI64)}), index});
}

std::vector<int64_t> joined(std::vector<int64_t> a, const std::vector<int64_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Index tuples [.., d] of the axes `extents` as one row number each, [n]; `extents` are the
// leading axes that the rows of the flattened data run over.
ValueId row_numbers(NodeImport& n, ValueId tuples, const std::vector<int64_t>& extents) {
  const std::vector<int64_t> shape = n.shape(tuples);
  const auto last = static_cast<int64_t>(shape.size()) - 1;
  const std::vector<int64_t> lead(shape.begin(), shape.end() - 1);
  ValueId rows;
  for (size_t k = 0; k < extents.size() && n.ok(); ++k) {
    const auto at = static_cast<int64_t>(k);
    const ValueId part = wrap_index(n, n.reshape(n.slice(tuples, last, at, at + 1), lead), extents[k]);
    if (!rows.valid()) {
      rows = part;
      continue;
    }
    const ValueId scaled = n.emit(OpKind::kMul, {rows, n.scalar(static_cast<double>(extents[k]), DType::kI64)});
    rows = n.emit(OpKind::kAdd, {scaled, part});
  }
  return n.reshape(rows, {ir::elements(lead)});
}

// Rows of `x`; a known index that names every row once in order is no op at all.
ValueId take_rows(NodeImport& n, ValueId x, int64_t dim, ValueId rows) {
  if (!n.ok()) return x;
  if (const std::optional<std::vector<int64_t>> all = n.known_ints(rows)) return n.index_select(x, dim, *all);
  return n.emit(OpKind::kIndexSelect, {x, rows}, ir::DimAttrs{dim});
}

}  // namespace

void import_gather(NodeImport& n) {
  const ValueId x = n.in(0);
  ValueId index = n.in(1);
  const std::vector<int64_t> from = n.shape(x);
  const int64_t axis = n.axis(n.int_attr("axis", 0), n.rank(x));
  if (!n.ok()) return;
  const std::vector<int64_t> index_shape = n.shape(index);
  if (n.is_parameter(x) && from.size() == 2 && axis == 0 && !index_shape.empty()) {
    index = n.known(index) ? wrap_index(n, index, from[0]) : n.cast(index, DType::kI64);
    ir::EmbeddingAttrs attrs;
    if (const auto* said = n.state().embeddings)
      if (const auto found = said->find(n.node().name); found != said->end()) attrs = found->second;
    if (attrs.padding_idx < -1) attrs.padding_idx += from[0];
    return n.result(OpKind::kEmbedding, {x, index}, attrs);
  }
  index = n.known(index) ? wrap_index(n, index, from[static_cast<size_t>(axis)]) : n.cast(index, DType::kI64);
  if (!n.ok()) return;
  const std::optional<int64_t> count = count_elements(index_shape);
  if (!count) return n.refuse("its index is too large");
  const ValueId rows = take_rows(n, x, axis, n.reshape(index, {*count}));
  std::vector<int64_t> to(from.begin(), from.begin() + axis);
  to = joined(joined(to, index_shape), {from.begin() + axis + 1, from.end()});
  n.set(0, n.reshape(rows, to));
}

void import_gather_elements(NodeImport& n) {
  const ValueId x = n.in(0), raw = n.in(1);
  const int64_t axis = n.axis(n.int_attr("axis", 0), n.rank(x));
  if (!n.ok()) return;
  const ValueId index = wrap_index(n, raw, n.shape(x)[static_cast<size_t>(axis)]);
  n.result(OpKind::kGather, {x, index}, ir::DimAttrs{axis});
}

// The leading `batch_dims` axes are folded into the row number with a constant offset.
void import_gather_nd(NodeImport& n) {
  const ValueId x = n.in(0);
  ValueId tuples = n.in(1);
  const std::vector<int64_t> from = n.shape(x), shape = n.shape(tuples);
  const int64_t batch = n.int_attr("batch_dims", 0);
  if (!n.ok()) return;
  if (shape.empty() || batch < 0 || batch >= static_cast<int64_t>(std::min(shape.size(), from.size())))
    return n.refuse("its index or its batch axes do not fit");
  const auto b = static_cast<size_t>(batch);
  const int64_t depth = shape.back();
  if (depth < 1 || depth > static_cast<int64_t>(from.size() - b) ||
      !std::equal(from.begin(), from.begin() + batch, shape.begin()))
    return n.refuse("its index does not fit its operand");
  const size_t d = static_cast<size_t>(depth);
  const std::vector<int64_t> extents(from.begin() + batch, from.begin() + batch + depth);
  const std::vector<int64_t> rest(from.begin() + batch + depth, from.end());
  const std::vector<int64_t> lead(shape.begin(), shape.end() - 1);
  ValueId rows = row_numbers(n, tuples, extents);
  if (b > 0 && n.ok()) {
    const int64_t groups = ir::elements({from.begin(), from.begin() + batch}),
                  each = ir::elements({lead.begin() + batch, lead.end()});
    if (!n.may_make(groups * 8)) return;
    std::vector<int64_t> offsets(static_cast<size_t>(groups));
    for (size_t i = 0; i < offsets.size(); ++i) offsets[i] = static_cast<int64_t>(i) * ir::elements(extents);
    rows = n.emit(OpKind::kAdd, {n.reshape(rows, {groups, each}), n.constant_i64({groups, 1}, offsets)});
    rows = n.reshape(rows, {groups * each});
  }
  const std::vector<int64_t> flat =
      joined({ir::elements({from.begin(), from.begin() + batch + static_cast<int64_t>(d)})}, rest);
  n.set(0, n.reshape(take_rows(n, n.reshape(x, flat), 0, rows), joined(lead, rest)));
}

void import_scatter_elements(NodeImport& n) {
  const ValueId x = n.in(0), raw = n.in(1), source = n.in(2);
  const int64_t axis = n.axis(n.int_attr("axis", 0), n.rank(x));
  const std::string reduction = n.string_attr("reduction", "none");
  if (!n.ok()) return;
  if (reduction != "none" && reduction != "add")
    return n.refuse("its reduction '" + reduction.substr(0, 40) + "' is not supported; 'none' and 'add' are");
  // Exporters write non-negative indices here; those of a router come from top-k.
  const ValueId index =
      n.known(raw) ? wrap_index(n, raw, n.shape(x)[static_cast<size_t>(axis)]) : n.cast(raw, DType::kI64);
  n.result(reduction == "add" ? OpKind::kScatterAdd : OpKind::kScatter, {x, index, source}, ir::DimAttrs{axis});
}

void import_scatter_nd(NodeImport& n) {
  const ValueId x = n.in(0), tuples = n.in(1), source = n.in(2);
  const std::vector<int64_t> from = n.shape(x), shape = n.shape(tuples);
  const std::string reduction = n.string_attr("reduction", "none");
  if (!n.ok()) return;
  if (reduction != "none" && reduction != "add")
    return n.refuse("its reduction '" + reduction.substr(0, 40) + "' is not supported; 'none' and 'add' are");
  if (shape.empty() || shape.back() < 1 || shape.back() > static_cast<int64_t>(from.size()))
    return n.refuse("its index does not fit its operand");
  const int64_t depth = shape.back();
  const std::vector<int64_t> extents(from.begin(), from.begin() + depth), rest(from.begin() + depth, from.end());
  const int64_t count = ir::elements({shape.begin(), shape.end() - 1}), width = ir::elements(rest);
  const ValueId rows = row_numbers(n, tuples, extents);
  const ValueId flat = n.reshape(x, {ir::elements(extents), width}), updates = n.reshape(source, {count, width});
  if (!n.ok()) return;
  ValueId y;
  if (reduction == "add") y = n.emit(OpKind::kIndexAdd, {flat, rows, updates}, ir::DimAttrs{0});
  else
    y = n.emit(OpKind::kScatter, {flat, n.expand(n.reshape(rows, {count, 1}), {count, width}), updates},
               ir::DimAttrs{0});
  n.set(0, n.reshape(y, from));
}

}  // namespace piper::frontend::onnx
