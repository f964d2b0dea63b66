// Attention: the operator of opset 23, and the decomposition that exporters write before it.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <string_view>

#include "compiler/frontend/onnx/ops.h"

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
  const std::vector<int64_t> shape = n.shape(v);
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
  const std::vector<int64_t> shape = n.shape(mask);
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
  const std::vector<int64_t> shape = n.shape(probabilities), value_shape = n.shape(values);
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
  const std::vector<int64_t> q = n.shape(scores->q), k = n.shape(scores->k);
  if (q[0] != k[0] || q[0] != value_shape[0] || k[1] != value_shape[1] || k[3] != value_shape[2] || k[1] < 1 ||
      q[1] % k[1] != 0 || q[3] != value_shape[3])
    return std::nullopt;
  const Mask m = mask.valid() ? read_mask(n, mask, shape[2], shape[3]) : Mask{};
  std::vector<ValueId> operands = {scores->q, transposed(n, scores->k), values};
  if (m.value.valid()) operands.push_back(m.value);
  return n.emit(OpKind::kSdpa, operands, ir::SdpaAttrs{m.is_causal, scores->scale}, n.first_output());
}

// q, k, v [batch, heads, sequence, width], or [batch, sequence, heads * width] with both head counts
// as attributes.
void import_attention(NodeImport& n) {
  ValueId q = n.in(0), k = n.in(1), v = n.in(2);
  const ValueId mask = n.in_or_none(3);
  for (const size_t i : {size_t{4}, size_t{5}, size_t{6}})
    if (n.has(i))
      n.refuse("operand " + std::to_string(i) + " (a cache of keys and values) is not supported in training");
  for (size_t i = 1; i < n.node().outputs.size(); ++i)
    if (n.is_read(i)) n.refuse("its result " + std::to_string(i) + " is not supported");
  if (n.float_attr("softcap", 0) != 0) n.refuse("softcap is not supported");
  if (!n.ok()) return;
  const bool packed = n.rank(q) == 3;
  const std::vector<int64_t> packed_shape = n.shape(q);
  if (packed) {
    const int64_t q_heads = n.int_attr("q_num_heads", 0), kv_heads = n.int_attr("kv_num_heads", 0);
    const auto unpack = [&](ValueId x, int64_t heads) {
      const std::vector<int64_t> s = n.shape(x);
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
  if (n.shape(v)[3] != n.shape(q)[3])
    return n.refuse("its values are " + std::to_string(n.shape(v)[3]) + " wide, its queries " +
                    std::to_string(n.shape(q)[3]) +
                    "; write it as products and a softmax, or export with torch.export");
  const int64_t width = n.shape(q)[3], rows = n.shape(q)[2], columns = n.shape(k)[2];
  const double usual = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(width, 1)));
  Mask m = mask.valid() ? read_mask(n, mask, rows, columns) : Mask{};
  if (n.int_attr("is_causal", 0) != 0) {
    if (m.value.valid()) return n.refuse("is_causal together with a mask is not supported");
    m.is_causal = true;
  }
  std::vector<ValueId> operands = {q, k, v};
  if (m.value.valid()) operands.push_back(m.value);
  const ir::SdpaAttrs attrs{m.is_causal, exact_scale(n.float_attr("scale", usual), width)};
  if (!packed) return n.result(OpKind::kSdpa, operands, attrs);
  const ValueId y = n.permute(n.emit(OpKind::kSdpa, operands, attrs), {0, 2, 1, 3});
  if (!n.ok()) return;
  const std::vector<int64_t> s = n.shape(y);
  n.set(0, n.reshape(y, {s[0], s[1], s[2] * s[3]}));
}

}  // namespace piper::frontend::onnx
