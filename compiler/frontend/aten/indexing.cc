// ATen calls that read or write elements by index tensors.
#include <algorithm>
#include <limits>
#include <numeric>

#include "compiler/frontend/aten/table.h"
#include "compiler/ir/shapes.h"

namespace piper::frontend::aten {
namespace {

// The axis along which an index tensor with known elements counts 0, 1, .. extent - 1, every other
// axis having extent 1 or repeating it; -1 where it does not.
int64_t counting_axis(Call& c, ValueId index, int64_t extent) {
  if (const auto constant = c.known(index); constant && constant->form() != nullptr) {
    for (size_t axis = 0; axis < constant->type.shape.size(); ++axis)
      if (constant->type.shape[axis] == extent && form::equal(constant->form(), form::axis(axis, extent)))
        return static_cast<int64_t>(axis);
    return -1;
  }
  std::vector<int64_t> known;
  if (!c.known_ints(index, known)) return -1;
  const Extents shape = c.shape(index);
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] != extent) continue;
    const int64_t inner = ir::elements_behind(shape, axis);
    bool counts = true;
    for (size_t i = 0; i < known.size() && counts; ++i) counts = known[i] == static_cast<int64_t>(i) / inner % extent;
    if (counts) return static_cast<int64_t>(axis);
  }
  return -1;
}

// Indices that all count along distinct ascending axes select everything in place: the result is a
// view. This is how a mask is laid out over the batch; as a gather it would look as if samples mixed.
bool as_view(Call& c, ValueId x, int64_t first, const std::vector<ValueId>& indices, const ir::Shape& wide,
             ValueId& out) {
  const size_t r = wide.size();
  std::vector<int64_t> parted(r, 1);
  int64_t last = -1;
  for (size_t k = 0; k < indices.size(); ++k) {
    const int64_t n = c.extent(x, first + static_cast<int64_t>(k));
    int64_t axis = counting_axis(c, indices[k], n);
    if (axis < 0) return false;
    axis += static_cast<int64_t>(r) - c.rank(indices[k]);
    if (axis <= last) return false;
    last = axis;
    parted[static_cast<size_t>(axis)] = n;
  }
  Extents shape = c.shape(x), full = shape;
  const auto from = static_cast<std::ptrdiff_t>(first), to = from + static_cast<std::ptrdiff_t>(indices.size());
  shape.erase(shape.begin() + from, shape.begin() + to);
  full = shape;
  shape.insert(shape.begin() + from, parted.begin(), parted.end());
  full.insert(full.begin() + from, wide.begin(), wide.end());
  out = c.expand(c.reshape(x, std::move(shape)), std::move(full));
  return true;
}

// Negative indices count from the end.
ValueId wrapped(Call& c, ValueId index, int64_t extent) {
  if (const auto constant = c.known(index); constant && constant->form() != nullptr && constant->form()->least >= 0)
    return index;
  std::vector<int64_t> known;
  if (c.known_ints(index, known)) {
    if (std::all_of(known.begin(), known.end(), [](int64_t i) { return i >= 0; })) return index;
  }
  const ValueId negative = c.binary(OpKind::kLt, index, 0);
  return c.op(OpKind::kWhere, {negative, c.binary(OpKind::kAdd, index, static_cast<double>(extent)), index});
}

// The index tensors of an indexing expression, and the axis of the first where they are next to each other.
struct Indexed {
  int64_t first = 0;
  std::vector<ValueId> indices;
  std::vector<int64_t> axes;  // of the indices
  ir::Shape shape;            // that they all broadcast to
  bool ok = false;
};
Indexed index_tensors(Call& c) {
  Indexed out;
  const std::vector<Item>& list = c.arg("indices").list;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].is_none()) continue;
    if (!list[i].is_tensor()) {
      c.fail("indexing with anything but tensors");
      return out;
    }
    if (c.dtype(list[i].tensor) == DType::kBool) {
      c.refuse("P0323", "indexing with a bool mask makes a tensor whose shape depends on the data; use torch.where");
      return out;
    }
    out.axes.push_back(static_cast<int64_t>(i));
    out.indices.push_back(c.cast(list[i].tensor, DType::kI64));
  }
  if (out.indices.empty()) c.fail("indexing without index tensors");
  else out.first = out.axes[0];
  std::optional<ir::Shape> shape = ir::Shape();
  for (size_t i = 0; i < out.indices.size() && shape; ++i) shape = ir::broadcast_shape(*shape, c.shape(out.indices[i]));
  if (!shape) c.fail("index tensors whose shapes cannot be broadcast");
  out.ok = !out.indices.empty() && shape;
  if (shape) out.shape = std::move(*shape);
  return out;
}

// The order of x's axes in which the indexed ones are next to each other: as they are, or else in front, where ATen
// puts the axes of the indices. `where` is then of that order.
std::vector<int64_t> joining_order(Call& c, ValueId x, Indexed& where) {
  std::vector<int64_t> order = c.all_dims(x);
  if (!where.ok || where.axes.back() >= c.rank(x)) return order;
  if (where.axes.back() - where.axes[0] + 1 == static_cast<int64_t>(where.axes.size())) return order;
  std::stable_partition(order.begin(), order.end(),
                        [&](int64_t axis) { return std::binary_search(where.axes.begin(), where.axes.end(), axis); });
  where.first = 0;
  return order;
}

}  // namespace

Item embedding(Call& c) {
  ir::EmbeddingAttrs attrs;
  const ValueId weight = c.tensor("weight");
  const int64_t padding = c.integer("padding_idx");
  attrs.padding_idx = padding < -1 ? padding + c.extent(weight, 0) : padding;
  attrs.scale_grad_by_freq = c.flag("scale_grad_by_freq");
  return made(c.op(OpKind::kEmbedding, {weight, c.cast(c.tensor("indices"), DType::kI64)}, attrs));
}

// Sums or means of rows of the weight, one for each bag; offsets say where the bags of a flat list of indices begin.
namespace {
// The indices of each bag as a row, [bags, longest], and where they are some; an invalid id where all are. A short bag
// has its first index, or the first of all, more often.
struct Bags {
  ValueId indices, filled, weights;
};
Bags bags_of(Call& c, const std::vector<int64_t>& begins, int64_t n) {
  Bags out{c.cast(c.tensor("indices"), DType::kI64), ValueId(), c.tensor_or_none("per_sample_weights")};
  const auto bags = static_cast<int64_t>(begins.size());
  int64_t longest = 0;
  bool even = true;
  const auto size_of = [&](int64_t bag) {
    return (bag + 1 < bags ? begins[static_cast<size_t>(bag) + 1] : n) - begins[static_cast<size_t>(bag)];
  };
  for (int64_t bag = 0; bag < bags; ++bag) {
    if (size_of(bag) < 0) c.fail("embedding_bag: offsets that descend");
    longest = std::max(longest, size_of(bag));
  }
  for (int64_t bag = 0; bag < bags; ++bag) even = even && size_of(bag) == longest;
  if (n < 1 || begins[0] != 0) c.fail("embedding_bag without indices, or with some before the first bag");
  if (!c.status().ok()) return out;
  if (!even) {
    std::vector<int64_t> places, is_one;
    for (int64_t bag = 0; bag < bags; ++bag)
      for (int64_t at = 0; at < longest; ++at) {
        is_one.push_back(at < size_of(bag) ? 1 : 0);
        places.push_back(is_one.back() == 1 ? begins[static_cast<size_t>(bag)] + at : 0);
      }
    const ValueId order = c.builder().constant_i64({bags * longest}, places);
    for (ValueId* v : {&out.indices, &out.weights})
      if (v->valid()) *v = c.op(OpKind::kIndexSelect, {*v, order}, ir::DimAttrs{0});
    out.filled = c.cast(c.builder().constant_i64({bags, longest}, is_one), DType::kBool);
  }
  out.indices = c.reshape(out.indices, {bags, longest});
  if (out.weights.valid()) out.weights = c.reshape(out.weights, {bags, longest, 1});
  return out;
}
}  // namespace

// Sums, means or the greatest of rows of a table, of bags whose sizes are known.
Item embedding_bag(Call& c) {
  constexpr int64_t kOfSums = 0, kOfMeans = 1, kOfGreatest = 2;
  const ValueId weight = c.tensor("weight");
  const int64_t mode = c.integer("mode"), n = c.extent(c.tensor("indices"), 0);
  std::vector<int64_t> begins;
  if (mode < kOfSums || mode > kOfGreatest) return c.fail("embedding_bag of an unknown mode");
  // PyTorch's own kernel on CPUs divides by how often another row is read than it says.
  if (c.flag("scale_grad_by_freq")) return c.fail("embedding_bag with scale_grad_by_freq is not supported");
  if (c.rank(c.tensor("indices")) != 1 || !c.known_ints(c.tensor("offsets"), begins) || begins.empty())
    return c.fail(
        "embedding_bag is supported for bags of known sizes: give the indices as a matrix, one row for each bag");
  if (c.flag("include_last_offset")) begins.pop_back();
  if (begins.empty()) return c.fail("embedding_bag without bags");
  const Bags bags = bags_of(c, begins, n);
  if (!c.status().ok()) return Item::none();
  ValueId read = bags.filled;
  if (c.has("padding_idx") && c.integer("padding_idx") != -1) {
    const int64_t padding = c.integer("padding_idx"), all = c.extent(weight, 0);
    const ValueId others = c.op(OpKind::kNe, {bags.indices, c.scalar_i64(padding < 0 ? padding + all : padding)});
    read = read.valid() ? c.op(OpKind::kLogicalAnd, {read, others}) : others;
  }
  ValueId rows = c.op(OpKind::kEmbedding, {weight, bags.indices}, ir::EmbeddingAttrs());
  if (bags.weights.valid()) rows = c.binary(OpKind::kMul, rows, bags.weights);
  const DType type = c.dtype(rows);
  if (read.valid()) {
    const double low = mode == kOfGreatest ? -std::numeric_limits<double>::infinity() : 0;
    rows = c.op(OpKind::kWhere, {c.unsqueeze(read, -1), rows, c.scalar(low, type)});
  }
  ValueId y;
  if (mode == kOfGreatest) y = c.squeeze(c.ops(OpKind::kMaxDim, {rows}, ir::TopkAttrs{1, 1})[0], 1);
  else y = mode == kOfMeans && !read.valid() ? c.mean(rows, {1}, false) : c.sum(rows, {1}, false);
  if (read.valid() && mode != kOfSums) {
    const ValueId counts = c.sum(c.cast(read, type), {1}, true), none = c.binary(OpKind::kEq, counts, 0);
    if (mode == kOfMeans) y = c.binary(OpKind::kDiv, y, c.op(OpKind::kWhere, {none, c.scalar(1, type), counts}));
    else y = c.op(OpKind::kWhere, {none, c.scalar(0, type), y});
  }
  return Item::of_list({made(y), Item::none(), Item::none(), Item::none()});
}

Item gather(Call& c) {
  const ValueId x = c.with_axis(c.tensor("self")), index = c.tensor("index");
  const ValueId y = c.op(OpKind::kGather, {x, c.with_axis(c.cast(index, DType::kI64))},
                         ir::DimAttrs{c.dim("dim", c.shape(x).size())});
  return made(c.rank(index) == 0 ? c.reshape(y, {}) : y);
}

Item scatter(Call& c) {
  const ValueId self = c.tensor("self"), x = c.with_axis(self);
  const ValueId index = c.with_axis(c.cast(c.tensor("index"), DType::kI64));
  ValueId src = c.as(c.arg("src"), c.dtype(x));
  if (c.rank(src) == 0 && c.rank(index) > 0) src = c.expand(src, c.shape(index));
  if (c.shape(src) != c.shape(index) && c.rank(src) == c.rank(index))  // only the part that the index covers is read
    for (int64_t d = 0; d < c.rank(src); ++d) src = c.slice(src, d, 0, c.extent(index, d));
  return made(c.reshape(c.op(c.kind(), {x, index, src}, ir::DimAttrs{c.dim("dim", c.shape(x).size())}), c.shape(self)));
}

Item index_select(Call& c) {
  const ValueId x = c.with_axis(c.tensor("self"));
  const ValueId y = c.op(OpKind::kIndexSelect, {x, c.with_axis(c.cast(c.tensor("index"), DType::kI64))},
                         ir::DimAttrs{c.dim("dim", c.shape(x).size())});
  return made(c.rank(c.tensor("self")) == 0 ? c.reshape(y, {}) : y);
}

Item index_add(Call& c) {
  const ValueId self = c.tensor("self"), x = c.with_axis(self);
  ValueId source = c.with_axis(c.tensor("source"));
  if (c.real("alpha") != 1) source = c.binary(OpKind::kMul, source, c.real("alpha"));
  const ValueId y = c.op(OpKind::kIndexAdd, {x, c.with_axis(c.cast(c.tensor("index"), DType::kI64)), source},
                         ir::DimAttrs{c.dim("dim", c.shape(x).size())});
  return made(c.reshape(y, c.shape(self)));
}

namespace {
// Index tensors of which some count along an axis of their common shape each, and the others, which are next to each
// other, pick elements of one merged axis: x[arange(n)[:, None], j] is gathered along j's axis. So samples stay apart
// that are along an axis that is counted.
struct Picked {
  size_t from = 0, to = 0;     // the indices that pick
  ValueId index;               // into their merged axis; an axis for each that counts, one for all others
  ir::Shape merged;            // of x
  std::vector<int64_t> order;  // of the common shape's axes: those of `index`, in which the others are one
  ir::Shape parted;            // of `index`, before that
};

// The axis of the common shape along which each index counts, or -1. No two have the same.
std::vector<int64_t> counting_axes(Call& c, ValueId x, const Indexed& where) {
  std::vector<int64_t> axes;
  for (size_t k = 0; k < where.indices.size(); ++k) {
    const int64_t n = c.extent(x, where.first + static_cast<int64_t>(k));
    int64_t axis = counting_axis(c, where.indices[k], n);
    if (axis >= 0) axis += static_cast<int64_t>(where.shape.size()) - c.rank(where.indices[k]);
    const bool free = axis >= 0 && where.shape[static_cast<size_t>(axis)] == n &&
                      std::find(axes.begin(), axes.end(), axis) == axes.end();
    axes.push_back(free ? axis : -1);
  }
  return axes;
}

bool picked_apart(Call& c, ValueId x, const Indexed& where, Picked& out) {
  const std::vector<int64_t> axes = counting_axes(c, x, where);
  const auto picks = [](int64_t axis) { return axis < 0; };
  const auto begin = std::find_if(axes.begin(), axes.end(), picks), end = std::find_if_not(begin, axes.end(), picks);
  if (begin == end || end - begin == std::ssize(axes) || std::any_of(end, axes.end(), picks)) return false;
  out.from = static_cast<size_t>(begin - axes.begin());
  out.to = static_cast<size_t>(end - axes.begin());
  const auto extent_of = [&](size_t k) { return c.extent(x, where.first + static_cast<int64_t>(k)); };
  int64_t extent = 1;
  for (size_t k = out.from; k < out.to; ++k) {
    const ValueId i = wrapped(c, where.indices[k], extent_of(k)), scale = c.scalar_i64(extent_of(k));
    out.index = k == out.from ? i : c.op(OpKind::kAdd, {c.op(OpKind::kMul, {out.index, scale}), i});
    extent *= extent_of(k);
  }
  ir::Shape flat;
  for (size_t k = 0; k < axes.size(); ++k)
    if (k == out.from) {
      for (int64_t axis = 0; axis < std::ssize(where.shape); ++axis)
        if (std::find(axes.begin(), axes.end(), axis) == axes.end()) out.order.push_back(axis);
      flat.push_back(-1);
    } else if (axes[k] >= 0) {
      out.order.push_back(axes[k]);
      flat.push_back(extent_of(k));
    }
  for (int64_t axis : out.order) out.parted.push_back(where.shape[static_cast<size_t>(axis)]);
  out.index = c.reshape(c.permute(c.expand(out.index, where.shape), out.order), std::move(flat));
  out.merged = c.shape(x);
  const auto first = out.merged.begin() + where.first;
  out.merged.erase(first + static_cast<std::ptrdiff_t>(out.from), first + static_cast<std::ptrdiff_t>(out.to));
  out.merged.insert(out.merged.begin() + where.first + static_cast<std::ptrdiff_t>(out.from), extent);
  return true;
}

// A permutation of some axes; `before` axes before them and `after` axes after them stay.
std::vector<int64_t> within(const std::vector<int64_t>& order, int64_t before, int64_t after) {
  std::vector<int64_t> all(static_cast<size_t>(before + after) + order.size());
  std::iota(all.begin(), all.end(), int64_t{0});
  for (size_t i = 0; i < order.size(); ++i) all[static_cast<size_t>(before) + i] = before + order[i];
  return all;
}

bool gathered(Call& c, ValueId x, const Indexed& where, ValueId& out) {
  Picked picked;
  if (!picked_apart(c, x, where, picked)) return false;
  const int64_t before = where.first, axis = before + static_cast<int64_t>(picked.from);
  const int64_t after = c.rank(x) - before - std::ssize(where.indices);
  const auto from = static_cast<std::ptrdiff_t>(before), to = from + c.rank(picked.index);
  Extents parted(picked.merged.size(), 1), wide = picked.merged, result = picked.merged;
  const ir::Shape index = c.shape(picked.index);
  std::copy(index.begin(), index.end(), parted.begin() + from);
  wide[static_cast<size_t>(axis)] = index[picked.from];
  const ValueId places = c.expand(c.reshape(picked.index, std::move(parted)), std::move(wide));
  const ValueId y = c.op(OpKind::kGather, {c.reshape(x, picked.merged), places}, ir::DimAttrs{axis});
  result.erase(result.begin() + from, result.begin() + to);
  result.insert(result.begin() + from, picked.parted.begin(), picked.parted.end());
  out = c.permute(c.reshape(y, std::move(result)), within(ir::inverse_permutation(picked.order), before, after));
  return true;
}
}  // namespace

// x[.., i, j, ..]: the indexed axes are merged into one, which is read with i * extent(j) + j.
Item index(Call& c) {
  Indexed where = index_tensors(c);
  ValueId x = c.tensor("self");
  x = c.permute(x, joining_order(c, x, where));
  if (!where.ok || where.first + static_cast<int64_t>(where.indices.size()) > c.rank(x))
    return c.fail("indexing of this form");
  ValueId view;
  if (as_view(c, x, where.first, where.indices, where.shape, view)) return made(view);
  if (gathered(c, x, where, view)) return made(view);
  const ir::Shape& wide = where.shape;
  Extents merged = c.shape(x), result = merged;
  const auto from = static_cast<std::ptrdiff_t>(where.first);
  ValueId flat;
  int64_t extent = 1;
  for (size_t k = 0; k < where.indices.size(); ++k) {
    const int64_t n = c.extent(x, where.first + static_cast<int64_t>(k));
    const ValueId i = wrapped(c, where.indices[k], n);
    flat = k == 0 ? i : c.binary(OpKind::kAdd, c.binary(OpKind::kMul, flat, static_cast<double>(n)), i);
    extent *= n;
  }
  const auto to = from + static_cast<std::ptrdiff_t>(where.indices.size());
  merged.erase(merged.begin() + from, merged.begin() + to);
  result = merged;
  merged.insert(merged.begin() + from, extent);
  result.insert(result.begin() + from, wide.begin(), wide.end());
  const ValueId rows = c.reshape(c.expand(flat, wide), {-1});
  const ValueId picked = c.op(OpKind::kIndexSelect, {c.reshape(x, std::move(merged)), rows}, ir::DimAttrs{where.first});
  return made(c.reshape(picked, std::move(result)));
}

// x[mask] = one value, for a mask over the leading axes of x: a choice per element.
bool put_by_mask(Call& c, Item& out) {
  const std::vector<Item>& list = c.arg("indices").list;
  if (list.size() != 1 || !list[0].is_tensor() || c.dtype(list[0].tensor) != DType::kBool || c.flag("accumulate"))
    return false;
  const ValueId x = c.tensor("self"), value = c.as(c.arg("values"), c.dtype(x));
  if (c.type(value).elements() != 1) return false;
  Extents shape = c.shape(list[0].tensor);
  if (shape.size() > c.shape(x).size()) return false;
  shape.resize(c.shape(x).size(), 1);
  out = made(c.op(OpKind::kWhere, {c.reshape(list[0].tensor, std::move(shape)), c.reshape(value, {}), x}));
  return true;
}

namespace {
// The places of a whole list in the order of its elements: each place once.
bool is_permutation(Call& c, ValueId index) {
  const ir::Value& value = c.graph().value(index);
  if (value.kind != ir::ValueKind::kOpResult || value.type.shape.size() != 1) return false;
  const ir::Op& op = c.graph().op(value.producer);
  return op.kind == OpKind::kTopk && value.result_index == 1 &&
         std::get<ir::TopkAttrs>(op.attrs).k == c.extent(op.operands[0], 0);
}

// As gathered; the indexed axes of x are its first ones.
bool scattered(Call& c, ValueId x, const Indexed& where, ValueId given, ValueId& out) {
  Picked picked;
  if (!picked_apart(c, x, where, picked)) return false;
  const ir::Shape shape = c.shape(x), index = c.shape(picked.index);
  const int64_t after = c.rank(x) - std::ssize(where.indices);
  Extents all = where.shape, parted = index, source = index;
  all.insert(all.end(), shape.end() - after, shape.end());
  source.insert(source.end(), shape.end() - after, shape.end());
  parted.resize(source.size(), 1);
  const ValueId places = c.expand(c.reshape(picked.index, std::move(parted)), source);
  given = c.permute(c.expand(given, std::move(all)), within(picked.order, 0, after));
  const OpKind kind = c.flag("accumulate") ? OpKind::kScatterAdd : OpKind::kScatter;
  out = c.op(kind, {c.reshape(x, picked.merged), places, c.reshape(given, std::move(source))},
             ir::DimAttrs{static_cast<int64_t>(picked.from)});
  out = c.reshape(out, shape);
  return true;
}
}  // namespace

Item index_put(Call& c) {
  if (Item chosen; put_by_mask(c, chosen)) return chosen;
  Indexed where = index_tensors(c);
  ValueId x = c.tensor("self");
  const std::vector<int64_t> joined = joining_order(c, x, where), parted = ir::inverse_permutation(joined);
  x = c.permute(x, joined);
  if (!c.flag("accumulate") && where.ok && where.indices.size() == 1 && c.rank(x) == 1 &&
      is_permutation(c, where.indices[0])) {
    const ValueId values = c.expand(c.as(c.arg("values"), c.dtype(x)), c.shape(where.indices[0]));
    return made(c.op(OpKind::kScatter, {x, where.indices[0], values}, ir::DimAttrs{0}));
  }
  const auto indexed = static_cast<int64_t>(where.indices.size());
  if (!where.ok || where.first + indexed > c.rank(x)) return c.fail("index_put of this form");
  const ir::Shape& wide = where.shape;
  ValueId given = c.as(c.arg("values"), c.dtype(x));
  // The indexed axes go to the front, and back.
  std::vector<int64_t> order(c.shape(x).size()), of_values;
  std::iota(order.begin(), order.end(), int64_t{0});
  std::rotate(order.begin(), order.begin() + where.first, order.begin() + where.first + indexed);
  const std::vector<int64_t> back = ir::inverse_permutation(order);
  if (where.first > 0) {
    ir::Shape all = c.shape(x);
    all.erase(all.begin() + where.first, all.begin() + where.first + indexed);
    all.insert(all.begin() + where.first, wide.begin(), wide.end());
    of_values.resize(all.size());
    std::iota(of_values.begin(), of_values.end(), int64_t{0});
    std::rotate(of_values.begin(), of_values.begin() + where.first,
                of_values.begin() + where.first + static_cast<int64_t>(wide.size()));
    given = c.permute(c.expand(given, std::move(all)), of_values);
    x = c.permute(x, order);
  }
  const auto result = [&](ValueId y) { return made(c.permute(where.first > 0 ? c.permute(y, back) : y, parted)); };
  Indexed in_front = where;
  in_front.first = 0;
  if (ValueId y; scattered(c, x, in_front, given, y)) return result(y);
  const ir::Shape shape = c.shape(x);
  ValueId flat;
  int64_t extent = 1;
  for (size_t k = 0; k < where.indices.size(); ++k) {
    const ValueId i = wrapped(c, where.indices[k], shape[k]);
    flat = k == 0 ? i : c.binary(OpKind::kAdd, c.binary(OpKind::kMul, flat, static_cast<double>(shape[k])), i);
    extent *= shape[k];
  }
  std::vector<int64_t> tail(shape.begin() + static_cast<std::ptrdiff_t>(where.indices.size()), shape.end());
  std::vector<int64_t> merged = tail, source = tail, rows = tail;
  merged.insert(merged.begin(), extent);
  source.insert(source.begin(), wide.begin(), wide.end());
  rows.insert(rows.begin(), -1);
  const ValueId values = c.reshape(c.expand(given, std::move(source)), std::move(rows));
  const ValueId indices = c.reshape(c.expand(flat, wide), {-1});
  const ValueId before = c.reshape(x, std::move(merged));
  if (c.flag("accumulate"))
    return result(c.reshape(c.op(OpKind::kIndexAdd, {before, indices, values}, ir::DimAttrs{0}), shape));
  // As in PyTorch's scatter, the last of equal indices.
  Extents column(c.shape(values).size(), 1);
  column[0] = -1;
  const ValueId places = c.expand(c.reshape(indices, std::move(column)), c.shape(values));
  return result(c.reshape(c.op(OpKind::kScatter, {before, places, values}, ir::DimAttrs{0}), shape));
}

}  // namespace piper::frontend::aten
