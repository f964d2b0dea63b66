// scaled_dot_product_attention.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/frontend/aten/dropout.h"
#include "compiler/frontend/aten/softmax.h"
#include "compiler/frontend/aten/table.h"
#include "compiler/frontend/aten/trained_values.h"
#include "compiler/ir/shapes.h"

namespace piper::frontend::aten {
namespace {

// [B, H, S, D] with the heads of k or v repeated for grouped queries.
ValueId with_heads(Call& c, ValueId x, int64_t heads) {
  const Extents s = c.shape(x);
  if (s[1] == heads || s[1] == 0) return x;
  const int64_t n = heads / s[1];
  return c.reshape(c.expand(c.unsqueeze(x, 2), {s[0], s[1], n, s[2], s[3]}), {s[0], heads, s[2], s[3]});
}

// Attention written out: softmax(q k^T scale + mask), dropped, times v. For what the fused operator has
// no derivative of: dropout on the probabilities, a mask that is trained.
ValueId written_out(Call& c, ValueId q, ValueId k, ValueId v, ValueId mask, bool causal, double scale, double p) {
  const int64_t heads = c.extent(q, 1), rows = c.extent(q, 2), columns = c.extent(k, 2);
  k = with_heads(c, k, heads);
  v = with_heads(c, v, heads);
  const ValueId scaled = c.binary(OpKind::kMul, q, scale);
  ValueId scores = c.op(OpKind::kMatmul, {scaled, c.transpose(k, -2, -1)});
  const ValueId low = c.scalar(-std::numeric_limits<double>::infinity(), c.dtype(scores));
  if (causal) {
    const ValueId row = c.unsqueeze(c.range(0, rows, 1, DType::kI64), 1);
    const ValueId column = c.unsqueeze(c.range(0, columns, 1, DType::kI64), 0);
    scores = c.op(OpKind::kWhere, {c.binary(OpKind::kLe, column, row), scores, low});
  }
  if (mask.valid()) {
    if (c.dtype(mask) == DType::kBool) scores = c.op(OpKind::kWhere, {mask, scores, low});
    else scores = c.binary(OpKind::kAdd, scores, mask);
  }
  const ValueId weights = mask.valid() ? safe_softmax(c, scores, 3) : c.op(OpKind::kSoftmax, {scores}, ir::DimAttrs{3});
  return c.op(OpKind::kMatmul, {p > 0 ? dropped(c, weights, p) : weights, v});
}

// With zeros up to a width: they add 0 to scores, and what they make of a result is cut off.
ValueId widened(Call& c, ValueId x, int64_t width) {
  Extents shape = c.shape(x);
  shape[3] = width - shape[3];
  return shape[3] == 0 ? x : c.cat({x, c.filled(shape, 0, c.dtype(x))}, 3);
}

// The fused operator takes queries, keys and values of one width; latent attention has narrower values.
ValueId fused(Call& c, ValueId q, ValueId k, ValueId v, ValueId mask, bool causal, double scale) {
  const int64_t width = c.extent(v, 3), widest = std::max(width, c.extent(q, 3));
  std::vector<ValueId> operands{widened(c, q, widest), widened(c, k, widest), widened(c, v, widest)};
  if (mask.valid()) operands.push_back(mask);
  ir::SdpaAttrs attrs;
  attrs.is_causal = causal;
  attrs.scale = scale;
  const ValueId y = c.op(OpKind::kSdpa, std::move(operands), attrs);
  return width == widest ? y : c.slice(y, 3, 0, width);
}

// The axes before the last three, as broadcast to each other.
std::vector<int64_t> leading_axes(Call& c, const std::vector<ValueId>& operands) {
  ir::Shape out;
  for (ValueId x : operands) {
    if (!x.valid() || c.rank(x) < 4) continue;
    const Extents shape = c.shape(x);
    const auto both = ir::broadcast_shape(out, {shape.begin(), shape.end() - 3});
    if (!both) c.fail("the axes before the heads do not fit together");
    else out = *both;
  }
  return out;
}

// [.., H, S, D] -> [B, H, S, D]; a mask that is the same for all of them stays one.
ValueId of_one_batch(Call& c, ValueId x, const std::vector<int64_t>& leading, bool is_mask) {
  if (c.rank(x) < 4) return x;  // a mask of rows and columns
  while (c.rank(x) < static_cast<int64_t>(leading.size()) + 3) x = c.unsqueeze(x, 0);
  Extents shape = c.shape(x);
  const std::vector<int64_t> own(shape.begin(), shape.end() - 3);
  shape.erase(shape.begin(), shape.end() - 3);
  const bool shared = is_mask && std::all_of(own.begin(), own.end(), [](int64_t e) { return e == 1; });
  int64_t batch = 1;
  if (!shared) {
    std::vector<int64_t> wide = leading;
    for (int64_t e : leading) batch = c.product(batch, e);
    wide.insert(wide.end(), shape.begin(), shape.end());
    x = c.expand(x, std::move(wide));
  }
  shape.insert(shape.begin(), batch);
  return c.reshape(x, std::move(shape));
}

}  // namespace

Item attention(Call& c) {
  ValueId q = c.tensor("query"), k = c.tensor("key"), v = c.tensor("value"), mask = c.tensor_or_none("attn_mask");
  const int64_t r = c.rank(q);
  if (r < 2 || c.rank(k) != r || c.rank(v) != r)
    return c.fail("attention is supported on tensors of as many axes, two or more");
  if (mask.valid() && c.rank(mask) > r) return c.fail("the attention mask has more axes than the query");
  if (mask.valid() && c.dtype(mask) != DType::kBool) mask = c.cast(mask, c.dtype(q));
  // The head axis of [B, S, D] is added after the batch, so that axis 0 stays the batch.
  for (int64_t missing = r; missing < 4; ++missing) {
    const int64_t at = missing - 2;
    q = c.unsqueeze(q, at);
    k = c.unsqueeze(k, at);
    v = c.unsqueeze(v, at);
    if (mask.valid() && c.rank(mask) == missing) mask = c.unsqueeze(mask, at);
  }
  // Axes before the heads are more of the batch.
  const std::vector<int64_t> leading = leading_axes(c, {q, k, v, mask});
  const auto lacks = [&](ValueId x) { return c.extent(x, 0) != leading[0]; };
  const bool of_several = r > 4 || lacks(q) || lacks(k) || lacks(v);
  for (ValueId* x : {&q, &k, &v, &mask})
    if (of_several && x->valid()) *x = of_one_batch(c, *x, leading, x == &mask);
  if (!c.status().ok()) return Item::none();
  // One head serves all of the others: as any axis of extent 1, it is broadcast.
  const int64_t groups = std::max(c.extent(k, 1), c.extent(v, 1));
  for (ValueId* x : {&q, &k, &v})
    if (c.extent(*x, 1) == 1 && (x != &q || !c.flag("enable_gqa"))) *x = with_heads(c, *x, groups);
  const int64_t heads = c.extent(q, 1);
  if (heads != groups && groups != 1 && !c.flag("enable_gqa"))
    return c.fail("the query has " + std::to_string(heads) + " heads, the key " + std::to_string(groups));
  const double scale = c.has("scale") ? c.real("scale") : 1 / std::sqrt(static_cast<double>(c.extent(q, 3)));
  const double p = c.real("dropout_p");
  if (p < 0 || p >= 1) return c.refuse("P0325", "attention dropout with probability " + std::to_string(p));
  const bool written = p > 0 || (mask.valid() && depends_on_trained(c.graph(), mask));
  ValueId y = written ? written_out(c, q, k, v, mask, c.flag("is_causal"), scale, p)
                      : fused(c, q, k, v, mask, c.flag("is_causal"), scale);
  for (int64_t extra = 4; extra > r; --extra) y = c.squeeze(y, extra - 3);
  if (r > 4 && c.status().ok()) {
    Extents shape = c.shape(y);
    shape.erase(shape.begin());
    shape.insert(shape.begin(), leading.begin(), leading.end());
    y = c.reshape(y, std::move(shape));
  }
  return Item::of_tensor(y);
}

}  // namespace piper::frontend::aten
