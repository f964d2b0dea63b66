// Gathers and scatters. Known indices are checked and wrapped here; those of a run-time tensor are
// taken to be in range, as PyTorch's own indices are, except where the operator allows negative ones.
#include <algorithm>
#include <limits>
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
  const Extents shape = n.shape(tuples);
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
  const Extents from = n.shape(x);
  const int64_t axis = n.axis(n.int_attr("axis", 0), n.rank(x));
  if (!n.ok()) return;
  const Extents index_shape = n.shape(index);
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
  const Extents from = n.shape(x), shape = n.shape(tuples);
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

namespace {

constexpr const char* kReductions[] = {"none", "add", "mul", "max", "min"};

// Each place of x by all elements along the axis: x's own and the ones that go there; others change nothing.
ValueId reduced_into(NodeImport& n, ValueId x, int64_t axis, ValueId index, ValueId source,
                     const std::string& reduction) {
  constexpr int64_t kMost = int64_t{1} << 24;
  const Extents from = n.shape(x), covered = n.shape(index);
  if (!is_floating(n.dtype(x))) return n.refuse("its reduction '" + reduction + "' of integers is not supported"), x;
  for (size_t d = 0; d < from.size(); ++d) {  // what lies beyond the index stays
    const auto dim = static_cast<int64_t>(d);
    if (dim == axis || covered[d] >= from[d]) continue;
    const ValueId inside = reduced_into(n, n.slice(x, dim, 0, covered[d]), axis, index, source, reduction);
    return n.emit(OpKind::kCat, {inside, n.slice(x, dim, covered[d], from[d])}, ir::DimAttrs{dim});
  }
  // [.., places, elements of the index, ..]
  const std::optional<int64_t> all = count_elements(ir::Shape{ir::elements(covered), from[static_cast<size_t>(axis)]});
  if (!all || *all > kMost) return n.refuse("its reduction '" + reduction + "' compares too many places"), x;
  std::vector<int64_t> places(from.size() + 1, 1), numbers(static_cast<size_t>(from[static_cast<size_t>(axis)]));
  std::iota(numbers.begin(), numbers.end(), int64_t{0});
  places[static_cast<size_t>(axis)] = from[static_cast<size_t>(axis)];
  const ValueId goes = n.emit(OpKind::kEq, {n.unsqueeze(index, axis), n.constant_i64(places, numbers)});
  const double infinity = std::numeric_limits<double>::infinity();
  const ValueId nothing = n.scalar_like(reduction == "mul" ? 1 : reduction == "max" ? -infinity : infinity, x);
  const ValueId values = n.emit(OpKind::kWhere, {goes, n.unsqueeze(source, axis), nothing});
  const ValueId together = n.emit(OpKind::kCat, {n.unsqueeze(x, axis + 1), values}, ir::DimAttrs{axis + 1});
  if (reduction == "mul") return n.call("aten.prod.dim_int", {together, axis + 1, false});
  return n.call(reduction == "max" ? "aten.amax.default" : "aten.amin.default",
                {together, std::vector<int64_t>{axis + 1}, false});
}

std::string read_reduction(NodeImport& n) {
  const std::string reduction = n.string_attr("reduction", "none");
  if (std::find(std::begin(kReductions), std::end(kReductions), reduction) == std::end(kReductions))
    n.refuse("its reduction '" + reduction.substr(0, 40) + "' is unknown");
  return reduction;
}

ValueId scattered(NodeImport& n, ValueId x, int64_t axis, ValueId index, ValueId source, const std::string& reduction) {
  if (!n.ok()) return x;
  if (n.shape(source) != n.shape(index) || n.rank(index) != n.rank(x))
    return n.refuse("its index, its updates and its operand do not fit together"), x;
  if (reduction == "none" || reduction == "add")
    return n.emit(reduction == "add" ? OpKind::kScatterAdd : OpKind::kScatter, {x, index, source}, ir::DimAttrs{axis});
  return reduced_into(n, x, axis, index, source, reduction);
}

}  // namespace

void import_scatter_elements(NodeImport& n) {
  const ValueId x = n.in(0), raw = n.in(1), source = n.in(2);
  const int64_t axis = n.axis(n.int_attr("axis", 0), n.rank(x));
  const std::string reduction = read_reduction(n);
  if (!n.ok()) return;
  // Exporters write non-negative indices here; those of a router come from top-k.
  const ValueId index =
      n.known(raw) ? wrap_index(n, raw, n.shape(x)[static_cast<size_t>(axis)]) : n.cast(raw, DType::kI64);
  n.set_all({scattered(n, x, axis, index, source, reduction)});
}

void import_scatter_nd(NodeImport& n) {
  const ValueId x = n.in(0), tuples = n.in(1), source = n.in(2);
  const Extents from = n.shape(x), shape = n.shape(tuples);
  const std::string reduction = read_reduction(n);
  if (!n.ok()) return;
  if (shape.empty() || shape.back() < 1 || shape.back() > static_cast<int64_t>(from.size()))
    return n.refuse("its index does not fit its operand");
  const int64_t depth = shape.back();
  const std::vector<int64_t> extents(from.begin(), from.begin() + depth), rest(from.begin() + depth, from.end());
  const int64_t count = ir::elements({shape.begin(), shape.end() - 1}), width = ir::elements(rest);
  const ValueId rows = row_numbers(n, tuples, extents);
  const ValueId flat = n.reshape(x, {ir::elements(extents), width}), updates = n.reshape(source, {count, width});
  if (!n.ok()) return;
  if (reduction == "add")
    return n.set(0, n.reshape(n.emit(OpKind::kIndexAdd, {flat, rows, updates}, ir::DimAttrs{0}), from));
  const ValueId index = n.expand(n.reshape(rows, {count, 1}), {count, width});
  n.set_all({n.reshape(scattered(n, flat, 0, index, updates, reduction), from)});
}

// Along the time axis the first elements of each sample in reverse order, as many as its length.
void import_reverse_sequence(NodeImport& n) {
  const ValueId x = n.in(0);
  const int64_t rank = n.rank(x), time = n.axis(n.int_attr("time_axis", 0), rank),
                batch = n.axis(n.int_attr("batch_axis", 1), rank);
  if (!n.ok()) return;
  aten::Call c = n.as_call();
  const Extents shape = n.shape(x);
  std::vector<int64_t> along(shape.size(), 1), of_batch = along;
  along[static_cast<size_t>(time)] = shape[static_cast<size_t>(time)];
  of_batch[static_cast<size_t>(batch)] = shape[static_cast<size_t>(batch)];
  const ValueId lengths = c.reshape(c.cast(n.in(1), DType::kI64), of_batch);
  const ValueId at = c.reshape(c.range(0, shape[static_cast<size_t>(time)], 1, DType::kI64), along);
  const ValueId back = c.binary(OpKind::kSub, c.binary(OpKind::kSub, lengths, at), c.scalar_i64(1));
  const ValueId index = c.op(OpKind::kWhere, {c.binary(OpKind::kLt, at, lengths), back, at});
  const ValueId y = c.op(OpKind::kGather, {x, c.expand(index, shape)}, ir::DimAttrs{time});
  n.set_all(n.finish(c, aten::Item::of_tensor(y)));
}

// Updates at consecutive places of each sample's part of a cache, from the one that is said.
void import_tensor_scatter(NodeImport& n) {
  const ValueId x = n.in(0), source = n.in(1);
  const int64_t rank = n.rank(x), axis = n.axis(n.int_attr("axis", -2), rank);
  const std::string mode = n.string_attr("mode", "linear");
  if (!n.ok()) return;
  if (mode != "linear" && mode != "circular") return n.refuse("its mode '" + mode.substr(0, 40) + "' is unknown");
  const Extents shape = n.shape(source);
  if (axis == 0 || n.rank(source) != rank) return n.refuse("its updates do not fit its cache");
  aten::Call c = n.as_call();
  std::vector<int64_t> along(shape.size(), 1), of_batch = along;
  along[static_cast<size_t>(axis)] = shape[static_cast<size_t>(axis)];
  of_batch[0] = shape[0];
  ValueId index = c.reshape(c.range(0, shape[static_cast<size_t>(axis)], 1, DType::kI64), along);
  if (n.has(2)) index = c.binary(OpKind::kAdd, index, c.reshape(c.cast(n.in(2), DType::kI64), of_batch));
  n.finish(c, aten::Item::none());
  if (mode == "circular") index = n.call("aten.remainder.Scalar", {index, n.shape(x)[static_cast<size_t>(axis)]});
  n.result(OpKind::kScatter, {x, n.expand(index, shape), source}, ir::DimAttrs{axis});
}

}  // namespace piper::frontend::onnx
