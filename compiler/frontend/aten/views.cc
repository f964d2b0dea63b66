// ATen calls that move, cut or join elements without computing anything.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <numeric>

#include "compiler/frontend/aten/table.h"
#include "compiler/frontend/exact_integers.h"
#include "compiler/ir/shapes.h"

namespace piper::frontend::aten {
namespace {

// One slice per size along `dim`.
Item pieces(Call& c, ValueId x, int64_t dim, const std::vector<int64_t>& sizes) {
  std::vector<Item> out;
  int64_t at = 0;
  for (int64_t size : sizes) {
    if (size < 0) return c.fail("the sizes of a split must not be negative");
    out.push_back(made(c.slice(x, dim, at, at + size)));
    at += size;
  }
  if (at != c.extent(x, dim)) return c.fail("the sizes of a split must add up to the axis");
  return Item::of_list(std::move(out));
}

// Sizes of pieces of `size` elements, the last one smaller.
std::vector<int64_t> even_sizes(int64_t extent, int64_t size) {
  std::vector<int64_t> sizes;
  for (int64_t at = 0; at < extent; at += size) sizes.push_back(std::min(size, extent - at));
  return sizes;
}

// x with its last three axes viewed as `apart`, permuted by `order` and viewed as `joined`.
Item images(Call& c, ValueId x, const std::array<int64_t, 5>& apart, const std::array<int64_t, 5>& order,
            const std::array<int64_t, 3>& joined) {
  const int64_t lead = c.rank(x) - 3;
  Extents viewed = c.shape(x), dims;
  viewed.resize(static_cast<size_t>(lead));
  std::vector<int64_t> result = viewed;
  viewed.insert(viewed.end(), apart.begin(), apart.end());
  result.insert(result.end(), joined.begin(), joined.end());
  for (int64_t d = 0; d < lead; ++d) dims.push_back(d);
  for (const int64_t d : order) dims.push_back(lead + d);
  return made(c.reshape(c.permute(c.reshape(x, std::move(viewed)), std::move(dims)), std::move(result)));
}

// Tensor i of a stack along d, where the axis was made by putting tensors of extent 1 together: what is beside it
// need not be computed. An invalid id elsewhere.
ValueId stacked_part(Call& c, ValueId x, int64_t d, int64_t i) {
  const ir::Value& value = c.graph().value(x);
  if (value.kind != ir::ValueKind::kOpResult) return ValueId();
  const ir::Op& op = c.graph().op(value.producer);
  if (op.kind != OpKind::kCat || std::get<ir::DimAttrs>(op.attrs).dim != d ||
      op.operands.size() != static_cast<size_t>(c.extent(x, d)))
    return ValueId();
  for (const ValueId part : op.operands)
    if (c.extent(part, d) != 1) return ValueId();
  const ValueId part = op.operands[static_cast<size_t>(i)];
  return c.squeeze(part, d);
}

// A diagonal of the last two axes, the k-th above the main one: every (columns + 1)-th element of both together.
ValueId diagonal_of(Call& c, ValueId x, int64_t k) {
  const int64_t last = c.rank(x) - 1, rows = c.extent(x, last - 1), columns = c.extent(x, last);
  const int64_t count = k >= 0 ? std::min(rows, columns - k) : std::min(rows + k, columns);
  Extents joined = c.shape(x);
  joined.pop_back();
  joined.back() = c.product(rows, columns);
  const int64_t start = k >= 0 ? k : -k * columns;
  const ValueId flat = c.reshape(x, std::move(joined));
  if (count < 1) return c.slice(flat, last - 1, 0, 0);
  return c.slice(flat, last - 1, start, start + (count - 1) * (columns + 1) + 1, columns + 1);
}

int64_t bound_or(Call& c, std::string_view name, int64_t fallback) { return c.has(name) ? c.integer(name) : fallback; }

}  // namespace

Item same(Call& c) { return made(c.tensor("self")); }
Item detach(Call& c) { return made(c.op(OpKind::kDetach, {c.tensor("self")})); }

Item view(Call& c) { return made(c.reshape(c.tensor("self"), c.ints("size"))); }
Item view_as(Call& c) { return made(c.reshape(c.tensor("self"), c.shape(c.tensor("other")))); }

Item flatten(Call& c) {
  const ValueId x = c.tensor("self");
  if (c.rank(x) == 0) return made(c.reshape(x, {1}));
  const int64_t first = c.dim("start_dim", c.shape(x).size()), last = c.dim("end_dim", c.shape(x).size());
  std::vector<int64_t> shape;
  for (int64_t d = 0; d < c.rank(x); ++d) {
    if (d > first && d <= last) shape.back() *= c.extent(x, d);
    else shape.push_back(c.extent(x, d));
  }
  return made(c.reshape(x, std::move(shape)));
}

Item unflatten(Call& c) {
  const ValueId x = c.tensor("self");
  const int64_t d = c.dim("dim", c.shape(x).size());
  Extents sizes = c.ints("sizes"), shape = c.shape(x);
  int64_t known = 1;
  for (int64_t s : sizes) known = c.product(known, s == -1 ? 1 : s);
  for (int64_t& s : sizes)
    if (s == -1 && known > 0) s = c.extent(x, d) / known;
  if (shape.empty()) return c.fail("unflatten of a scalar");
  shape.erase(shape.begin() + d);
  shape.insert(shape.begin() + d, sizes.begin(), sizes.end());
  return made(c.reshape(x, std::move(shape)));
}

Item expand(Call& c) {
  const ValueId x = c.tensor("self");
  std::vector<int64_t> size = c.ints("size");
  const int64_t extra = static_cast<int64_t>(size.size()) - c.rank(x);
  if (extra < 0) return c.fail("expand to fewer axes");
  for (int64_t i = 0; i < static_cast<int64_t>(size.size()); ++i)
    if (size[static_cast<size_t>(i)] == -1) size[static_cast<size_t>(i)] = c.extent(x, i - extra);
  return made(c.expand(x, std::move(size)));
}
// Axis i of x becomes axis broadcast_dimensions[i] of the result.
Item broadcast_in_dim(Call& c) {
  const ValueId x = c.tensor("self");
  std::vector<int64_t> shape = c.ints("shape"), parted(shape.size(), 1);
  const std::vector<int64_t> at = c.ints("broadcast_dimensions");
  for (size_t i = 0; i < at.size(); ++i) {
    if (at[i] < 0 || at[i] >= static_cast<int64_t>(shape.size())) return c.fail("broadcast_in_dim: no such axis");
    parted[static_cast<size_t>(at[i])] = c.extent(x, static_cast<int64_t>(i));
  }
  return made(c.expand(c.reshape(x, std::move(parted)), std::move(shape)));
}
Item expand_as(Call& c) { return made(c.expand(c.tensor("self"), c.shape(c.tensor("other")))); }
Item broadcast_tensors(Call& c) {
  const std::vector<ValueId> parts = c.tensors("tensors");
  std::optional<ir::Shape> wide = ir::Shape();
  for (ValueId x : parts)
    if (wide) wide = ir::broadcast_shape(*wide, c.shape(x));
  if (!wide) return c.fail("tensors whose shapes cannot be broadcast");
  std::vector<Item> out;
  for (ValueId x : parts) out.push_back(made(c.expand(x, *wide)));
  return Item::of_list(std::move(out));
}

Item transpose(Call& c) {
  const ValueId x = c.tensor("self");
  return made(c.transpose(x, c.dim("dim0", c.shape(x).size()), c.dim("dim1", c.shape(x).size())));
}
Item matrix_transpose(Call& c) {
  const ValueId x = c.tensor("self");
  return made(c.rank(x) < 2 ? x : c.transpose(x, -2, -1));
}
Item reverse_axes(Call& c) {
  const ValueId x = c.tensor("self");
  std::vector<int64_t> dims = c.all_dims(x);
  std::reverse(dims.begin(), dims.end());
  return made(c.permute(x, std::move(dims)));
}
Item permute(Call& c) {
  const ValueId x = c.tensor("self");
  std::vector<int64_t> dims = c.ints("dims");
  for (int64_t& d : dims) d = ir::axis_from_front(d, c.shape(x).size());
  return made(c.permute(x, std::move(dims)));
}
Item movedim(Call& c) {
  const ValueId x = c.tensor("self");
  const int64_t from = c.dim("source", c.shape(x).size()), to = c.dim("destination", c.shape(x).size());
  std::vector<int64_t> dims = c.all_dims(x);
  if (dims.empty()) return made(x);
  dims.erase(dims.begin() + from);
  dims.insert(dims.begin() + to, from);
  return made(c.permute(x, std::move(dims)));
}

Item movedims(Call& c) {
  const ValueId x = c.tensor("self");
  std::vector<int64_t> from = c.ints("source"), to = c.ints("destination"), order(static_cast<size_t>(c.rank(x)), -1);
  if (from.size() != to.size()) return c.fail("movedim: as many sources as destinations are needed");
  std::vector<bool> taken(order.size(), false);
  for (size_t i = 0; i < from.size(); ++i) {
    const int64_t f = from[i] < 0 ? from[i] + c.rank(x) : from[i], t = to[i] < 0 ? to[i] + c.rank(x) : to[i];
    if (f < 0 || t < 0 || f >= c.rank(x) || t >= c.rank(x)) return c.fail("movedim: no such axis");
    order[static_cast<size_t>(t)] = f;
    taken[static_cast<size_t>(f)] = true;
  }
  size_t next = 0;
  for (int64_t& axis : order) {
    while (axis < 0 && next < taken.size() && taken[next]) ++next;
    if (axis < 0 && next < taken.size()) axis = static_cast<int64_t>(next++);
  }
  return made(c.permute(x, std::move(order)));
}
Item ravel(Call& c) { return made(c.reshape(c.tensor("self"), {-1})); }

Item squeeze_all(Call& c) {
  const ValueId x = c.tensor("self");
  std::vector<int64_t> shape;
  for (int64_t s : c.shape(x))
    if (s != 1) shape.push_back(s);
  return made(c.reshape(x, std::move(shape)));
}
Item squeeze(Call& c) {
  const ValueId x = c.tensor("self");
  const std::vector<int64_t> dims = c.listed_dims("dim", c.shape(x).size());
  std::vector<int64_t> shape;
  for (int64_t d = 0; d < c.rank(x); ++d)
    if (c.extent(x, d) != 1 || std::find(dims.begin(), dims.end(), d) == dims.end()) shape.push_back(c.extent(x, d));
  return made(c.reshape(x, std::move(shape)));
}
Item unsqueeze(Call& c) { return made(c.unsqueeze(c.tensor("self"), c.integer("dim"))); }

Item slice(Call& c) {
  const ValueId x = c.tensor("self");
  const int64_t d = c.dim("dim", c.shape(x).size());
  return made(c.slice(x, d, bound_or(c, "start", 0), bound_or(c, "end", std::numeric_limits<int64_t>::max()),
                      c.integer("step")));
}
Item narrow(Call& c) {
  const ValueId x = c.tensor("self");
  const int64_t d = c.dim("dim", c.shape(x).size());
  const int64_t n = c.extent(x, d), start = c.integer("start") + (c.integer("start") < 0 ? n : 0),
                length = c.integer("length");
  if (start < 0 || start > n || length < 0 || length > n - start)
    return c.fail("narrow: the range lies outside of the axis");
  return made(c.slice(x, d, start, start + length));
}
Item select(Call& c) {
  const ValueId x = c.tensor("self");
  const int64_t d = c.dim("dim", c.shape(x).size());
  int64_t i = c.integer("index");
  if (i < 0) i += c.extent(x, d);
  if (i < 0 || i >= c.extent(x, d)) return c.fail("select: the index lies outside of the axis");
  if (const ValueId part = stacked_part(c, x, d, i); part.valid()) return made(part);
  return made(c.squeeze(c.slice(x, d, i, i + 1), d));
}

Item split(Call& c) {
  const ValueId x = c.tensor("self");
  const int64_t d = c.dim("dim", c.shape(x).size());
  const int64_t size = c.integer("split_size");
  if (size < 1) return c.fail("split: the size must be positive");
  return pieces(c, x, d, even_sizes(c.extent(x, d), size));
}
Item split_with_sizes(Call& c) {
  const ValueId x = c.tensor("self");
  return pieces(c, x, c.dim("dim", c.shape(x).size()), c.ints("split_sizes"));
}
// `sections` pieces, the first ones larger by one where they do not divide the axis.
namespace {
Item split_in(Call& c, int64_t n) {
  const ValueId x = c.tensor("self");
  const int64_t d = c.dim("dim", c.shape(x).size());
  if (n < 1) return c.fail("tensor_split: the number of sections must be positive");
  if (!c.may_make(n, Call::kBytesOfOp)) return Item::none();
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < n; ++i) sizes.push_back(c.extent(x, d) / n + (i < c.extent(x, d) % n ? 1 : 0));
  return pieces(c, x, d, sizes);
}
}  // namespace
Item tensor_split_sections(Call& c) { return split_in(c, c.integer("sections")); }
namespace {
Item split_at(Call& c, std::vector<int64_t> ends) {
  const ValueId x = c.tensor("self");
  const int64_t d = c.dim("dim", c.shape(x).size()), n = c.extent(x, d);
  std::vector<Item> out;
  int64_t from = 0;
  ends.push_back(n);
  for (int64_t end : ends) {
    const int64_t to = std::clamp<int64_t>(end < 0 ? end + n : end, 0, n);
    out.push_back(made(c.slice(x, d, from, std::max(from, to))));
    from = to;
  }
  return Item::of_list(std::move(out));
}
}  // namespace
Item tensor_split_indices(Call& c) { return split_at(c, c.ints("indices")); }
// By a tensor whose elements are known: a number of pieces, or where they end.
Item tensor_split_by_tensor(Call& c) {
  const ValueId where = c.tensor("tensor_indices_or_sections");
  std::vector<int64_t> known;
  if (!c.known_ints(where, known))
    return c.refuse("P0323", "tensor_split by numbers that depend on the data makes tensors of shapes that do");
  if (c.rank(where) == 0) return split_in(c, known[0]);
  return split_at(c, std::move(known));
}
Item chunk(Call& c) {
  const ValueId x = c.tensor("self");
  const int64_t d = c.dim("dim", c.shape(x).size());
  const int64_t n = std::max<int64_t>(c.integer("chunks"), 1);
  return pieces(c, x, d, even_sizes(c.extent(x, d), std::max<int64_t>((c.extent(x, d) + n - 1) / n, 1)));
}
Item unbind(Call& c) {
  const ValueId x = c.tensor("self");
  const int64_t d = c.dim("dim", c.shape(x).size());
  std::vector<Item> out;
  for (int64_t i = 0; i < c.extent(x, d); ++i) out.push_back(made(c.squeeze(c.slice(x, d, i, i + 1), d)));
  return Item::of_list(std::move(out));
}

// The tensors of a list, in the type that holds the elements of all.
std::vector<ValueId> in_one_type(Call& c) {
  std::vector<ValueId> parts = c.tensors("tensors");
  std::vector<Item> items;
  std::vector<const Item*> pointers;
  for (ValueId v : parts) items.push_back(made(v));
  for (const Item& x : items) pointers.push_back(&x);
  const DType t = promoted(c.graph(), pointers);
  for (ValueId& part : parts) part = c.cast(part, t);
  return parts;
}

Item cat(Call& c) {
  std::vector<ValueId> parts = in_one_type(c);
  const auto is_nothing = [&](ValueId v) { return c.rank(v) == 1 && c.extent(v, 0) == 0; };  // beside parts of any rank
  if (!std::all_of(parts.begin(), parts.end(), is_nothing)) std::erase_if(parts, is_nothing);
  const int64_t d = c.dim("dim", c.shape(parts[0]).size());
  return made(c.cat(std::move(parts), d));
}
Item stack(Call& c) {
  std::vector<ValueId> parts = in_one_type(c);
  const int64_t d = c.dim("dim", c.shape(parts[0]).size() + 1);
  for (ValueId& v : parts) v = c.unsqueeze(v, d);
  return made(c.cat(std::move(parts), d));
}

// x [a, b] repeated (m, n) = x viewed [1, a, 1, b], expanded to [m, a, n, b], viewed [m a, n b].
Item repeat(Call& c) {
  ValueId x = c.tensor("self");
  Extents repeats = c.ints("repeats"), shape = c.shape(x);
  while (repeats.size() < shape.size()) repeats.insert(repeats.begin(), 1);
  shape.insert(shape.begin(), repeats.size() - shape.size(), 1);
  std::vector<int64_t> parted, wide, merged;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (repeats[i] != 1) {
      parted.push_back(1);
      wide.push_back(repeats[i]);
    }
    parted.push_back(shape[i]);
    wide.push_back(shape[i]);
    merged.push_back(c.product(repeats[i], shape[i]));
  }
  return made(c.reshape(c.expand(c.reshape(x, std::move(parted)), std::move(wide)), std::move(merged)));
}

Item repeat_interleave(Call& c) {
  ValueId x = c.tensor("self");
  if (!c.has("dim")) x = c.reshape(x, {-1});
  const int64_t d = c.has("dim") ? c.dim("dim", c.shape(x).size()) : 0;
  const int64_t n = c.integer("repeats");
  if (n < 0) return c.fail("repeat_interleave: a negative number of repeats");
  Extents merged = c.shape(x);
  if (merged.empty()) return c.fail("repeat_interleave of a scalar");
  merged[static_cast<size_t>(d)] = c.product(merged[static_cast<size_t>(d)], n);
  ValueId y = c.unsqueeze(x, d + 1);
  Extents wide = c.shape(y);
  wide[static_cast<size_t>(d) + 1] = n;
  return made(c.reshape(c.expand(y, std::move(wide)), std::move(merged)));
}

Item pad(Call& c) {
  const ValueId x = c.tensor("self");
  if (c.text("mode") != "constant") return c.fail("padding is supported with mode 'constant'");
  const std::vector<int64_t> pairs = c.ints("pad");
  const size_t r = c.shape(x).size();
  if (pairs.size() % 2 != 0 || pairs.size() / 2 > r) return c.fail("pad: two numbers per axis are wanted");
  ir::PadAttrs attrs;
  attrs.low.assign(r, 0);
  attrs.high.assign(r, 0);
  for (size_t i = 0; i < pairs.size() / 2; ++i) {  // pairs start at the last axis
    attrs.low[r - 1 - i] = pairs[2 * i];
    attrs.high[r - 1 - i] = pairs[2 * i + 1];
  }
  attrs.value = c.has("value") ? c.real("value") : 0;
  if (!is_exact(c.dtype(x), attrs.value))
    return c.fail("padding of integers with a number that a double does not hold exactly");
  return made(c.op(OpKind::kPad, {x}, std::move(attrs)));
}

Item slice_scatter(Call& c) {
  const ValueId x = c.tensor("self"), src = c.tensor("src");
  const int64_t d = c.dim("dim", c.shape(x).size()), n = c.extent(x, d), step = c.integer("step");
  int64_t start = bound_or(c, "start", 0), end = bound_or(c, "end", n);
  start = ir::slice_bound(start, n);
  end = std::max(start, ir::slice_bound(end, n));
  if (step < 1) return c.fail("slice_scatter wants a positive step");
  if (step > 1 && c.may_make(n)) {  // both after each other, in the order of the result
    std::vector<int64_t> places;
    for (int64_t i = 0; i < n; ++i)
      places.push_back(i >= start && i < end && (i - start) % step == 0 ? n + (i - start) / step : i);
    const ValueId both = c.cat({x, c.cast(src, c.dtype(x))}, d);
    return made(c.op(OpKind::kIndexSelect, {both, c.builder().constant_i64({n}, places)}, ir::DimAttrs{d}));
  }
  std::vector<ValueId> parts;
  if (start > 0) parts.push_back(c.slice(x, d, 0, start));
  if (end > start) parts.push_back(c.cast(src, c.dtype(x)));
  if (end < n) parts.push_back(c.slice(x, d, end, n));
  return made(parts.empty() ? x : c.cat(std::move(parts), d));
}
Item select_scatter(Call& c) {
  const ValueId x = c.tensor("self");
  const int64_t d = c.dim("dim", c.shape(x).size()), n = c.extent(x, d);
  int64_t i = c.integer("index");
  if (i < 0) i += n;
  if (i < 0 || i >= n) return c.fail("select_scatter: the index lies outside of the axis");
  std::vector<ValueId> parts;
  if (i > 0) parts.push_back(c.slice(x, d, 0, i));
  parts.push_back(c.cast(c.unsqueeze(c.tensor("src"), d), c.dtype(x)));
  if (i + 1 < n) parts.push_back(c.slice(x, d, i + 1, n));
  return made(c.cat(std::move(parts), d));
}

// One tensor for each vector, all of the shape of all their extents; "xy" exchanges the first two axes.
Item meshgrid(Call& c) {
  const std::vector<ValueId> vectors = c.tensors("tensors");
  const bool exchanged = c.target() == "aten.meshgrid.indexing" && c.text("indexing") == "xy" && vectors.size() > 1;
  std::vector<int64_t> wide;
  for (ValueId v : vectors) wide.push_back(c.type(v).elements());
  std::vector<Item> out;
  for (size_t i = 0; i < vectors.size(); ++i) {
    std::vector<int64_t> parted(wide.size(), 1);
    parted[i] = wide[i];
    ValueId y = c.expand(c.reshape(vectors[i], std::move(parted)), wide);
    out.push_back(made(exchanged ? c.transpose(y, 0, 1) : y));
  }
  return Item::of_list(std::move(out));
}

// A square matrix with the vector on a diagonal, or a diagonal of a matrix.
Item diag(Call& c) {
  const ValueId x = c.tensor("self");
  const int64_t k = c.integer("diagonal");
  if (c.rank(x) == 1) {
    const int64_t n = c.extent(x, 0) + std::abs(k), above = std::max<int64_t>(k, 0), below = std::max<int64_t>(-k, 0);
    const ValueId on = c.binary(OpKind::kEq, c.unsqueeze(c.range(k, n, 1, DType::kI64), 1),
                                c.unsqueeze(c.range(0, n, 1, DType::kI64), 0));
    ir::PadAttrs attrs;
    attrs.low = {above};
    attrs.high = {below};
    const ValueId row = c.unsqueeze(c.op(OpKind::kPad, {x}, std::move(attrs)), 0);  // by column
    return made(c.op(OpKind::kWhere, {on, row, c.scalar(0, c.dtype(x))}));
  }
  if (c.rank(x) != 2) return c.fail("diag of neither a vector nor a matrix");
  return made(diagonal_of(c, x, k));
}
Item diagonal_copy(Call& c) {
  const ValueId x = c.tensor("self");
  const int64_t rows = c.dim("dim1", c.shape(x).size()), columns = c.dim("dim2", c.shape(x).size());
  if (c.rank(x) < 2 || rows == columns) return c.fail("a diagonal of fewer than two axes");
  std::vector<int64_t> order = c.all_dims(x);
  std::erase_if(order, [&](int64_t axis) { return axis == rows || axis == columns; });
  order.push_back(rows);
  order.push_back(columns);
  return made(diagonal_of(c, c.permute(x, std::move(order)), c.integer("offset")));
}

// [.., C r r, H, W] -> [.., C, H r, W r]: each group of r r channels becomes a square of r by r pixels.
Item pixel_shuffle(Call& c) {
  const ValueId x = c.tensor("self");
  const int64_t r = c.integer("upscale_factor"), rank = c.rank(x);
  if (rank < 3 || r < 1 || r > c.extent(x, rank - 3) || c.extent(x, rank - 3) % r != 0 ||
      c.extent(x, rank - 3) / r % r != 0)
    return c.fail("pixel_shuffle wants [.., C, H, W] with channels that are a multiple of the factor's square");
  const int64_t n = c.extent(x, rank - 3) / r / r, h = c.extent(x, rank - 2), w = c.extent(x, rank - 1);
  return images(c, x, {n, r, r, h, w}, {0, 3, 1, 4, 2}, {n, h * r, w * r});
}
// The inverse: [.., C, H r, W r] -> [.., C r r, H, W].
Item pixel_unshuffle(Call& c) {
  const ValueId x = c.tensor("self");
  const int64_t r = c.integer("downscale_factor"), rank = c.rank(x);
  if (rank < 3 || r < 1 || c.extent(x, rank - 2) % r != 0 || c.extent(x, rank - 1) % r != 0)
    return c.fail("pixel_unshuffle wants [.., C, H, W] with H and W multiples of the factor");
  const int64_t n = c.extent(x, rank - 3), h = c.extent(x, rank - 2) / r, w = c.extent(x, rank - 1) / r;
  return images(c, x, {n, h, r, w, r}, {0, 2, 4, 1, 3}, {c.product(c.product(n, r), r), h, w});
}
// Channel i of group g becomes channel i * groups + g.
Item channel_shuffle(Call& c) {
  const ValueId x = c.tensor("self");
  const int64_t groups = c.integer("groups");
  if (c.rank(x) < 3 || groups < 1 || c.extent(x, 1) % groups != 0)
    return c.fail("channel_shuffle wants [N, C, ..] with channels that are a multiple of the groups");
  const Extents shape = c.shape(x);
  std::vector<int64_t> apart = shape;
  apart[1] /= groups;
  apart.insert(apart.begin() + 1, groups);
  return made(c.reshape(c.transpose(c.reshape(x, std::move(apart)), 1, 2), shape));
}

Item flip(Call& c) {
  ValueId x = c.tensor("self");
  for (int64_t d : c.listed_dims("dims", c.shape(x).size()))
    x = c.op(OpKind::kIndexSelect, {x, c.range(c.extent(x, d) - 1, c.extent(x, d), -1, DType::kI64)}, ir::DimAttrs{d});
  return made(x);
}

Item roll(Call& c) {
  ValueId x = c.tensor("self");
  const std::vector<int64_t> shifts = c.ints("shifts");
  std::vector<int64_t> dims = c.ints("dims");
  const Extents shape = c.shape(x);
  if (dims.empty() && shifts.size() == 1) {  // of all elements in their order
    x = c.reshape(x, {-1});
    dims = {0};
  }
  if (dims.size() != shifts.size()) return c.fail("roll wants one axis per shift");
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t d = dims[i] < 0 ? dims[i] + c.rank(x) : dims[i], n = c.extent(x, d);
    if (n == 0) continue;
    const int64_t at = n - ((shifts[i] % n) + n) % n;  // first element of the result
    if (at == n) continue;
    x = c.cat({c.slice(x, d, at, n), c.slice(x, d, 0, at)}, d);
  }
  return made(c.reshape(x, shape));
}

// tril keeps column <= row + diagonal, triu column >= row + diagonal.
Item triangle(Call& c) {
  const ValueId x = c.tensor("self");
  if (c.rank(x) < 2) return c.fail("a triangle needs two axes");
  const int64_t rows = c.extent(x, c.rank(x) - 2), columns = c.extent(x, c.rank(x) - 1);
  const ValueId row = c.unsqueeze(c.range(c.integer("diagonal"), rows, 1, DType::kI64), 1);
  const ValueId column = c.unsqueeze(c.range(0, columns, 1, DType::kI64), 0);
  const ValueId keep = c.binary(c.kind(), column, row);
  if (c.dtype(x) == DType::kBool) return made(c.op(OpKind::kLogicalAnd, {x, keep}));
  return made(c.op(OpKind::kWhere, {keep, x, c.scalar(0, c.dtype(x))}));
}

Item getitem(Call& c) {
  const Item& list = c.arg("self");
  const int64_t i = c.integer("index");
  const int64_t n = static_cast<int64_t>(list.list.size());
  if (!list.is_list() || i >= n || i < -n) return c.fail("getitem: no such result");
  const Item& x = list.list[static_cast<size_t>(i < 0 ? i + n : i)];
  if (x.is_none()) return c.fail("result " + std::to_string(i) + " of this call is not supported");
  return x;
}

}  // namespace piper::frontend::aten
