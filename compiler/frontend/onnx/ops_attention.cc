// Attention: the operator of opset 23, and the decomposition that exporters write before it.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <string_view>

#include "compiler/frontend/aten/softmax.h"
#include "compiler/frontend/onnx/ops.h"
#include "compiler/frontend/aten/trained_values.h"

namespace piper::frontend::onnx {
namespace {

// What a mask holds for a pair that must not attend: the exporter writes the lowest float.
constexpr double kMasked = -1e30;

// The scale 1 / sqrt(width) in double where `scale` is its float rounding.
double exact_scale(double scale, int64_t width) {
  const double usual = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(width, 1)));
  return std::abs(scale - usual) < 1e-6 * usual ? usual : scale;
}

// x and the known scalar it is multiplied with.
std::optional<std::pair<ValueId, double>> scaled(NodeImport& n, ValueId v) {
  const ir::Op* op = n.made_by(v, OpKind::kMul);
  if (op == nullptr) return std::nullopt;
  const ValueId a = op->operands[0], b = op->operands[1];
  for (const auto& [x, factor] : {std::pair(a, b), std::pair(b, a)}) {
    const std::optional<double> c = n.known_number(factor);
    if (c && n.shape(x) == n.shape(v)) return std::pair(x, *c);
  }
  return std::nullopt;
}

// k where v = transpose(k, -2, -1): after a permute, after reshape to three axes, permute,
// reshape, or v with its last axes swapped back.
ValueId transposed(NodeImport& n, ValueId v) {
  const Extents shape = n.shape(v);
  if (const ir::Op* permute = n.made_by(v, OpKind::kPermute)) {
    std::vector<int64_t> dims = std::get<ir::PermuteAttrs>(permute->attrs).dims;
    std::swap(dims[2], dims[3]);
    return n.permute(permute->operands[0], dims);
  }
  const ir::Op* outer = n.made_by(v, OpKind::kReshape);
  const ir::Op* permute = outer != nullptr ? n.made_by(outer->operands[0], OpKind::kPermute) : nullptr;
  if (permute != nullptr && std::get<ir::PermuteAttrs>(permute->attrs).dims == std::vector<int64_t>{0, 2, 1}) {
    const ir::Op* inner = n.made_by(permute->operands[0], OpKind::kReshape);
    const ValueId k = inner != nullptr ? inner->operands[0] : permute->operands[0];
    if (n.shape(k) == std::vector<int64_t>{shape[0], shape[1], shape[3], shape[2]} &&
        n.shape(permute->operands[0]) == std::vector<int64_t>{shape[0] * shape[1], shape[3], shape[2]})
      return k;
  }
  return n.swap_last(v);
}

struct Mask {
  ValueId value;  // invalid: none
  bool is_causal = false;
};

// A known mask: bool, and whether it is all true or the lower triangle.
Mask known_mask(NodeImport& n, ValueId mask, const std::vector<bool>& attend, int64_t rows, int64_t columns) {
  if (std::all_of(attend.begin(), attend.end(), [](bool b) { return b; })) return {};
  const Extents shape = n.shape(mask);
  const bool whole = shape.size() >= 2 && shape[shape.size() - 2] == rows && shape.back() == columns;
  bool triangle = whole;
  const auto size = static_cast<size_t>(rows * columns);
  for (size_t i = 0; triangle && i < attend.size(); ++i)
    triangle = attend[i] == (static_cast<int64_t>(i % size) % columns <= static_cast<int64_t>(i % size) / columns);
  if (triangle) return {ValueId(), true};
  return {n.constant_bool(shape, attend), false};
}

// A float mask of zeros and lowest values as the bool mask it was made from.
Mask read_mask(NodeImport& n, ValueId mask, int64_t rows, int64_t columns) {
  if (n.dtype(mask) == DType::kBool) return {mask, false};
  const std::optional<int64_t> count = count_elements(n.shape(mask));
  if (const std::optional<std::vector<double>> all = n.known_numbers(mask, count.value_or(0))) {
    std::vector<bool> attend(all->size());
    for (size_t i = 0; i < attend.size(); ++i) {
      attend[i] = (*all)[i] == 0;
      if (!attend[i] && !((*all)[i] <= kMasked)) return {mask, false};
    }
    if (n.ok()) return known_mask(n, mask, attend, rows, columns);
  }
  if (const ir::Op* where = n.made_by(mask, OpKind::kWhere)) {
    const ValueId condition = where->operands[0];
    const std::optional<double> yes = n.known_number(where->operands[1]), no = n.known_number(where->operands[2]);
    if (yes && no && n.shape(condition) == n.shape(mask)) {
      if (*yes == 0 && *no <= kMasked) return {condition, false};
      if (*no == 0 && *yes <= kMasked) return {n.emit(OpKind::kLogicalNot, {condition}), false};
    }
  }
  return {mask, false};
}

// The softmax after which probabilities are, past what Where(IsNaN(p), 0, p) is imported as.
const ir::Op* softmax_behind(NodeImport& n, ValueId probabilities) {
  if (const ir::Op* where = n.made_by(probabilities, OpKind::kWhere)) {
    const ir::Op* is_nan = n.made_by(where->operands[0], OpKind::kIsNan);
    const ir::Op* of_open = n.made_by(where->operands[2], OpKind::kSoftmax);
    if (is_nan == nullptr || of_open == nullptr) return nullptr;
    const ir::Op* softmax = n.made_by(is_nan->operands[0], OpKind::kSoftmax);
    const ir::Op* open = n.made_by(of_open->operands[0], OpKind::kWhere);
    if (softmax == nullptr || open == nullptr || open->operands[0] != where->operands[0] ||
        open->operands[1] != where->operands[1] || open->operands[2] != softmax->operands[0])
      return nullptr;
    probabilities = is_nan->operands[0];
  }
  const ir::Op* softmax = n.made_by(probabilities, OpKind::kSoftmax);
  return softmax != nullptr && std::get<ir::DimAttrs>(softmax->attrs).dim == 3 ? softmax : nullptr;
}

struct Scores {
  ValueId q, k;
  double scale = 1;
};

// (q * c) x (transpose(k) * c); `k` is still transposed, [batch, heads, width, sequence].
std::optional<Scores> read_scores(NodeImport& n, ValueId v) {
  const ir::Op* product = n.made_by(v, OpKind::kMatmul);
  if (product == nullptr) return std::nullopt;
  const ValueId left = product->operands[0], right = product->operands[1];
  const auto q = scaled(n, left), k = scaled(n, right);
  if (!q || !k) return std::nullopt;
  if (n.rank(q->first) != 4 || n.rank(k->first) != 4) return std::nullopt;
  return Scores{q->first, k->first, exact_scale(q->second * k->second, n.shape(q->first)[3])};
}

}  // namespace

std::optional<ValueId> match_attention(NodeImport& n, ValueId probabilities, ValueId values) {
  const Extents shape = n.shape(probabilities), value_shape = n.shape(values);
  if (shape.size() != 4 || value_shape.size() != 4) return std::nullopt;
  const ir::Op* softmax = softmax_behind(n, probabilities);
  if (softmax == nullptr) return std::nullopt;
  const ValueId logits = softmax->operands[0];
  std::optional<Scores> scores = read_scores(n, logits);
  ValueId mask;
  if (!scores) {
    const ir::Op* add = n.made_by(logits, OpKind::kAdd);
    if (add == nullptr) return std::nullopt;
    const ValueId a = add->operands[0], b = add->operands[1];
    scores = read_scores(n, a);
    mask = b;
    if (!scores || n.shape(a) != shape) return std::nullopt;
  }
  const Extents q = n.shape(scores->q), k = n.shape(scores->k);
  if (q[0] != k[0] || q[0] != value_shape[0] || k[1] != value_shape[1] || k[3] != value_shape[2] || k[1] < 1 ||
      q[1] % k[1] != 0 || q[3] != value_shape[3])
    return std::nullopt;
  const Mask m = mask.valid() ? read_mask(n, mask, shape[2], shape[3]) : Mask{};
  if (m.value.valid() && depends_on_trained(n.graph(), m.value))
    return std::nullopt;  // it has no derivative by its mask
  std::vector<ValueId> operands = {scores->q, transposed(n, scores->k), values};
  if (m.value.valid()) operands.push_back(m.value);
  return n.emit(OpKind::kSdpa, operands, ir::SdpaAttrs{m.is_causal, scores->scale}, n.first_output());
}

namespace {

// Which pairs of a query and a key attend, by their places: the causal ones, those within a window, keys that are some.
// Invalid where all do. `before`: how many keys come before the first query, a number or [batch, 1, 1, 1].
struct Places {
  bool causal = false;
  int64_t left = -1, right = -1;  // -1: without a bound
  aten::Item before = aten::Item::of_int(0);
  ValueId lengths;  // of the keys of each sample, [batch, 1, 1, 1]
};
ValueId attending(aten::Call& c, const Places& p, int64_t rows, int64_t columns) {
  using aten::Item;
  const ValueId row = c.unsqueeze(c.range(0, rows, 1, DType::kI64), 1);
  const ValueId column = c.unsqueeze(c.range(0, columns, 1, DType::kI64), 0);
  const ValueId apart = c.binary(OpKind::kSub, c.binary(OpKind::kAdd, Item::of_tensor(row), p.before), column);
  ValueId out;
  const auto and_that = [&](ValueId v) { out = out.valid() ? c.op(OpKind::kLogicalAnd, {out, v}) : v; };
  if (p.causal) and_that(c.binary(OpKind::kGe, Item::of_tensor(apart), Item::of_int(0)));
  if (p.left >= 0) and_that(c.binary(OpKind::kLe, Item::of_tensor(apart), Item::of_int(p.left)));
  if (p.right >= 0) and_that(c.binary(OpKind::kGe, Item::of_tensor(apart), Item::of_int(-p.right)));
  if (p.lengths.valid()) and_that(c.binary(OpKind::kLt, column, p.lengths));
  return out;
}

// A mask of fewer keys lets no query attend to the others; one without axes is of them all.
ValueId of_all_keys(aten::Call& c, ValueId mask, int64_t columns) {
  const int64_t missing = c.rank(mask) > 0 ? columns - c.extent(mask, c.rank(mask) - 1) : 0;
  if (missing > 0) {
    Extents shape = c.shape(mask);
    shape.back() = missing;
    const double closed = c.dtype(mask) == DType::kBool ? 0 : -std::numeric_limits<double>::infinity();
    mask = c.cat({mask, c.filled(shape, closed, c.dtype(mask))}, c.rank(mask) - 1);
  }
  while (c.rank(mask) < 4) mask = c.unsqueeze(mask, 0);
  return mask;
}

constexpr int64_t kScores = 0, kCapped = 1, kMaskedScores = 2, kProbabilities = 3;  // qk_matmul_output_mode

// Attention written out, for scores that are bounded or a result: the result, and what the mode asks for.
std::vector<ValueId> attention_in_parts(aten::Call& c, ValueId q, ValueId k, ValueId v, ValueId mask, double scale,
                                        double cap, int64_t mode) {
  const int64_t heads = c.extent(q, 1), groups = std::max<int64_t>(c.extent(k, 1), 1);
  const auto of_heads = [&](ValueId x) {
    const Extents s = c.shape(x);
    if (groups == heads) return x;
    return c.reshape(c.expand(c.unsqueeze(x, 2), {s[0], s[1], heads / groups, s[2], s[3]}), {s[0], heads, s[2], s[3]});
  };
  ValueId scores = c.op(OpKind::kMatmul, {c.binary(OpKind::kMul, q, scale), c.transpose(of_heads(k), -2, -1)});
  if (cap > 0) scores = c.binary(OpKind::kMul, c.op(OpKind::kTanh, {c.binary(OpKind::kDiv, scores, cap)}), cap);
  const double closed = -std::numeric_limits<double>::infinity();
  ValueId masked = scores, weights;
  if (!mask.valid()) {
    weights = c.op(OpKind::kSoftmax, {scores}, ir::DimAttrs{3});
  } else {
    masked = c.dtype(mask) == DType::kBool ? c.op(OpKind::kWhere, {mask, scores, c.scalar(closed, c.dtype(scores))})
                                           : c.binary(OpKind::kAdd, scores, mask);
    weights = aten::safe_softmax(c, masked, 3);
  }
  const ValueId y = c.op(OpKind::kMatmul, {weights, of_heads(v)});
  return {y, mode == kProbabilities ? weights : mode == kMaskedScores ? masked : scores};
}

}  // namespace

// q, k, v [batch, heads, sequence, width], or [batch, sequence, heads * width] with both head counts as attributes;
// before k and v those of earlier calls.
void import_attention(NodeImport& n) {
  ValueId q = n.in(0), k = n.in(1), v = n.in(2), mask = n.in_or_none(3);
  const double cap = n.float_attr("softcap", 0);
  const int64_t mode = n.is_read(3) ? n.int_attr("qk_matmul_output_mode", kScores) : kScores;
  if (!n.ok()) return;
  const bool packed = n.rank(q) == 3;
  if (packed) {
    const int64_t q_heads = n.int_attr("q_num_heads", 0), kv_heads = n.int_attr("kv_num_heads", 0);
    const auto unpack = [&](ValueId x, int64_t heads) {
      const Extents s = n.shape(x);
      if (s.size() != 3 || heads < 1 || s[2] % heads != 0) {
        n.refuse("its head counts do not divide its operands");
        return x;
      }
      return n.permute(n.reshape(x, {s[0], s[1], heads, s[2] / heads}), {0, 2, 1, 3});
    };
    q = unpack(q, q_heads);
    k = unpack(k, kv_heads);
    v = unpack(v, kv_heads);
  }
  if (!n.ok()) return;
  if (n.rank(q) != 4 || n.rank(k) != 4 || n.rank(v) != 4) return n.refuse("it wants q, k and v of three or four axes");
  if (cap < 0 || mode < kScores || mode > kProbabilities) return n.refuse("its softcap or output mode does not exist");
  if (cap > 0 && n.is_read(3) && mode == kScores) return n.refuse("scores before a softcap as a result");
  aten::Call c = n.as_call();
  Places places;
  if (n.has(4) != n.has(5)) return n.refuse("a cache of only keys, or of only values");
  if (n.has(4)) {
    const ValueId keys = n.in(4), values = n.in(5);
    if (!n.ok() || n.rank(keys) != 4 || n.rank(values) != 4) return n.refuse("its cache is of another number of axes");
    places.before = aten::Item::of_int(n.shape(keys)[2]);
    k = c.cat({keys, k}, 2);
    v = c.cat({values, v}, 2);
  }
  const int64_t width = n.shape(q)[3], rows = n.shape(q)[2], columns = n.shape(k)[2], heads = n.shape(q)[1],
                groups = n.shape(k)[1];
  if (groups < 1 || heads % groups != 0) return n.refuse("its heads are no multiple of those of its keys");
  if (n.has(6)) {
    if (n.has(4)) return n.refuse("lengths of its keys together with a cache");
    places.lengths = c.reshape(c.cast(n.in(6), DType::kI64), {-1, 1, 1, 1});
    places.before =
        aten::Item::of_tensor(c.binary(OpKind::kSub, aten::Item::of_tensor(places.lengths), aten::Item::of_int(rows)));
  }
  places.left = n.int_attr("left_window_size", -1);
  places.right = n.int_attr("right_window_size", -1);
  bool causal = n.int_attr("is_causal", 0) != 0;
  if (mask.valid() && n.rank(mask) >= 2 && n.shape(mask).back() == columns) {
    const Mask m = read_mask(n, mask, rows, columns);
    causal = causal || (m.is_causal && !n.has(4) && !n.has(6));
    if (!m.is_causal || causal) mask = m.value;
  }
  const bool in_parts = cap > 0 || n.is_read(3);
  // The triangle alone is a flag of the operator.
  const bool triangle =
      causal && !in_parts && !mask.valid() && !n.has(4) && !n.has(6) && places.left < 0 && places.right < 0;
  places.causal = causal && !triangle;
  const ValueId open = attending(c, places, rows, columns);
  if (mask.valid()) mask = of_all_keys(c, mask, columns);
  if (open.valid()) {
    if (!mask.valid()) mask = open;
    else if (c.dtype(mask) == DType::kBool) mask = c.op(OpKind::kLogicalAnd, {mask, open});
    else mask = c.op(OpKind::kWhere, {open, mask, c.scalar(-std::numeric_limits<double>::infinity(), c.dtype(mask))});
    while (c.rank(mask) < 4) mask = c.unsqueeze(mask, 0);
  }
  const double usual = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(width, 1)));
  const double scale = exact_scale(n.float_attr("scale", usual), width);
  std::vector<ValueId> y;
  if (in_parts) y = attention_in_parts(c, q, k, v, mask, scale, cap, mode);
  n.finish(c, aten::Item::none());
  if (!in_parts) y = {n.call("aten.scaled_dot_product_attention.default", {q, k, v, mask, 0.0, triangle, scale, true})};
  if (!n.ok()) return;
  if (packed) {
    const Extents s = n.shape(y[0]);
    y[0] = n.reshape(n.permute(y[0], {0, 2, 1, 3}), {s[0], s[2], s[1] * s[3]});
  }
  n.set_all(in_parts ? std::vector<ValueId>{y[0], k, v, y[1]} : std::vector<ValueId>{y[0], k, v});
}

// Pairs of elements of each head are turned by the angles of their places; the rest of the head stays.
void import_rotary_embedding(NodeImport& n) {
  ValueId x = n.in(0), cosine = n.in(1), sine = n.in(2);
  const bool interleaved = n.int_attr("interleaved", 0) != 0;
  const int64_t heads = n.int_attr("num_heads", 0);
  int64_t turned = n.int_attr("rotary_embedding_dim", 0);
  if (!n.ok()) return;
  const Extents shape = n.shape(x);
  if (shape.size() != 4 && (shape.size() != 3 || heads < 1 || shape[2] % heads != 0))
    return n.refuse("it wants [batch, heads, sequence, width], or three axes and num_heads");
  aten::Call c = n.as_call();
  if (shape.size() == 3) x = c.transpose(c.reshape(x, {shape[0], shape[1], heads, shape[2] / heads}), 1, 2);
  const int64_t width = c.extent(x, 3);
  if (turned == 0) turned = width;
  if (turned < 2 || turned % 2 != 0 || turned > width)
    return n.refuse("its rotary_embedding_dim does not fit its heads");
  for (ValueId* table : {&cosine, &sine}) {
    if (n.has(3)) {  // rows of a table of all places
      const ValueId places = c.cast(n.in(3), DType::kI64);
      Extents to = c.shape(places);
      to.push_back(c.extent(*table, 1));
      *table = c.reshape(c.op(OpKind::kIndexSelect, {*table, c.reshape(places, {-1})}, ir::DimAttrs{0}), to);
    }
    *table = c.unsqueeze(*table, 1);
    if (c.rank(*table) != 4 || c.extent(*table, 3) != turned / 2) return n.refuse("its tables do not fit its heads");
  }
  const int64_t half = turned / 2, step = interleaved ? 2 : 1;
  const ValueId first = c.slice(x, 3, 0, interleaved ? turned : half, step),
                second = c.slice(x, 3, interleaved ? 1 : half, turned, step);
  const auto times = [&](ValueId a, ValueId b) { return c.op(OpKind::kMul, {a, b}); };
  ValueId real = c.op(OpKind::kSub, {times(cosine, first), times(sine, second)}),
          other = c.op(OpKind::kAdd, {times(sine, first), times(cosine, second)}), y;
  if (interleaved) {
    Extents to = c.shape(real);
    to[3] = turned;
    y = c.reshape(c.cat({c.unsqueeze(real, 4), c.unsqueeze(other, 4)}, 4), to);
  } else {
    y = c.cat({real, other}, 3);
  }
  if (turned < width) y = c.cat({y, c.slice(x, 3, turned, width)}, 3);
  if (shape.size() == 3) y = c.reshape(c.transpose(y, 1, 2), shape);
  n.set_all(n.finish(c, aten::Item::of_tensor(y)));
}

// A state [batch, heads, keys, values] that each step fades, corrects and adds to, and that queries read; step by step.
void import_linear_attention(NodeImport& n) {
  constexpr int64_t kMostSteps = 2048;
  const std::string rule = n.string_attr("update_rule", "gated_delta");
  const bool fades = rule == "gated" || rule == "gated_delta", corrects = rule == "delta" || rule == "gated_delta";
  if (!fades && !corrects && rule != "linear")
    return n.refuse("its update_rule '" + rule.substr(0, 40) + "' is unknown");
  const ValueId q = n.in(0), k = n.in(1), v = n.in(2);
  const int64_t q_heads = n.int_attr("q_num_heads", 0), heads = n.int_attr("kv_num_heads", 0);
  const double said = n.float_attr("scale", 0);
  if (!n.ok()) return;
  const Extents shape = n.shape(q);
  if (shape.size() != 3 || n.rank(k) != 3 || n.rank(v) != 3 || heads < 1 || q_heads < 1 || q_heads % heads != 0 ||
      shape[2] % q_heads != 0 || n.shape(k)[2] != shape[2] / q_heads * heads || n.shape(v)[2] % heads != 0 ||
      fades != n.has(4) || corrects != n.has(5))
    return n.refuse("its operands do not fit its rule or its numbers of heads");
  const int64_t batch = shape[0], steps = shape[1], width = shape[2] / q_heads, values = n.shape(v)[2] / heads;
  if (steps < 1 || steps > kMostSteps)
    return n.refuse("it is written out step by step, for 1 to " + std::to_string(kMostSteps) + " steps");
  aten::Call c = n.as_call();
  // [batch, steps, groups * features] -> [batch, groups, 1, features] of one step
  const auto of_step = [&](ValueId x, int64_t groups, int64_t at) {
    return c.reshape(c.slice(x, 1, at, at + 1), {batch, groups, 1, c.extent(x, 2) / groups});
  };
  const auto turned = [&](ValueId x) { return c.transpose(x, 2, 3); };
  const double scale = said == 0 ? 1 / std::sqrt(static_cast<double>(width)) : said;
  ValueId state = n.has(3) ? n.in(3) : c.filled({batch, heads, width, values}, 0, n.dtype(q));
  std::vector<ValueId> outputs;
  for (int64_t at = 0; at < steps && c.status().ok(); ++at) {
    const ValueId key = of_step(k, heads, at);
    ValueId value = of_step(v, heads, at);
    if (fades) state = c.op(OpKind::kMul, {state, turned(c.op(OpKind::kExp, {of_step(n.in(4), heads, at)}))});
    if (corrects) {
      const ValueId rate = of_step(n.in(5), c.extent(n.in(5), 2), at);
      value = c.op(OpKind::kMul, {rate, c.op(OpKind::kSub, {value, c.op(OpKind::kMatmul, {key, state})})});
    }
    state = c.op(OpKind::kAdd, {state, c.op(OpKind::kMatmul, {turned(key), value})});
    ValueId query = c.reshape(of_step(q, q_heads, at), {batch, heads, q_heads / heads, width});
    query = c.binary(OpKind::kMul, c.op(OpKind::kMatmul, {query, state}), scale);
    outputs.push_back(c.reshape(query, {batch, 1, q_heads * values}));
  }
  n.set_all(n.finish(
      c, aten::Item::of_list({aten::Item::of_tensor(c.cat(std::move(outputs), 1)), aten::Item::of_tensor(state)})));
}

}  // namespace piper::frontend::onnx
