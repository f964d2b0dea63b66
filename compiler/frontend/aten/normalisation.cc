// ATen calls that normalise: layer, RMS, group, batch and weight norm, cosine similarity.
#include <limits>

#include "compiler/frontend/aten/table.h"
#include "compiler/frontend/formulas.h"

namespace piper::frontend::aten {
namespace {

Item all_of(const std::vector<ValueId>& values) {
  std::vector<Item> out;
  for (ValueId v : values) out.push_back(made(v));
  return Item::of_list(std::move(out));
}

// [C] laid over axis 1 of x.
ValueId per_channel(Call& c, ValueId v, ValueId x) {
  Extents shape(c.shape(x).size(), 1);
  if (shape.size() > 1) shape[1] = c.extent(v, 0);
  return c.reshape(v, std::move(shape));
}

// (x - mean) / sqrt(var + eps) * w + b with statistics that the batch does not change.
ValueId with_fixed_statistics(Call& c) {
  const ValueId x = c.tensor("input"), mean = c.tensor("running_mean"), var = c.tensor("running_var");
  const ValueId scale = c.op(OpKind::kRsqrt, {c.binary(OpKind::kAdd, var, c.real("eps"))});
  ValueId y = c.binary(OpKind::kMul, c.binary(OpKind::kSub, x, per_channel(c, mean, x)), per_channel(c, scale, x));
  if (c.has("weight")) y = c.binary(OpKind::kMul, y, per_channel(c, c.tensor("weight"), x));
  if (c.has("bias")) y = c.binary(OpKind::kAdd, y, per_channel(c, c.tensor("bias"), x));
  return y;
}

std::vector<ValueId> batch_norm_values(Call& c, bool has_statistics) {
  ir::BatchNormAttrs attrs;
  attrs.momentum = c.real("momentum");
  attrs.eps = c.real("eps");
  const ValueId mean = has_statistics ? c.tensor_or_none("running_mean") : ValueId();
  const ValueId var = has_statistics ? c.tensor_or_none("running_var") : ValueId();
  if (mean.valid() && is_half(c.dtype(c.tensor("input"))))
    c.refuse("P0324",
             "running statistics are computed in f32: keep the batch norms of the model in f32, or export the "
             "model in f32 and write `precision: {compute: bf16}` into the strategy");
  for (ValueId v : {mean, var})
    if (v.valid() && c.graph().value(v).kind != ir::ValueKind::kBuffer)
      c.refuse("P0324", "the running statistics of a batch norm in training mode must be buffers of the model");
  std::vector<ValueId> results = c.ops(
      OpKind::kBatchNorm, {c.tensor("input"), c.tensor_or_none("weight"), c.tensor_or_none("bias"), mean, var}, attrs);
  for (size_t i = 1; i < results.size(); ++i) results[i] = c.op(OpKind::kDetach, {results[i]});  // as in PyTorch
  return results;
}
// What PyTorch gives for statistics that are not computed.
Item nothing(Call& c) { return made(c.filled({0}, 0, DType::kF32)); }

std::vector<ValueId> normalised_groups(Call& c, int64_t groups) {
  ir::GroupNormAttrs attrs;
  attrs.groups = groups;
  attrs.eps = c.real("eps");
  return c.ops(OpKind::kGroupNorm, {c.tensor("input"), c.tensor_or_none("weight"), c.tensor_or_none("bias")}, attrs);
}

}  // namespace

// Statistics of rows as ATen has them: the axes before the normalised ones, and these with extent 1. PyTorch gives them
// no gradient, other than those of groups.
Item with_statistics_of_rows(Call& c, ValueId x, std::vector<ValueId> results, int64_t axes) {
  Extents shape = c.shape(x);
  std::fill(shape.end() - std::min(axes, c.rank(x)), shape.end(), 1);
  for (size_t i = 1; i < results.size(); ++i) results[i] = c.op(OpKind::kDetach, {c.reshape(results[i], shape)});
  return all_of(results);
}

Item layer_norm(Call& c) {
  ir::LayerNormAttrs attrs;
  attrs.axes = static_cast<int64_t>(c.ints("normalized_shape").size());
  attrs.eps = c.real("eps");
  const std::vector<ValueId> r =
      c.ops(OpKind::kLayerNorm, {c.tensor("input"), c.tensor_or_none("weight"), c.tensor_or_none("bias")}, attrs);
  if (c.kind() == OpKind::kLayerNorm) return made(r[0]);
  return with_statistics_of_rows(c, c.tensor("input"), r, attrs.axes);
}

Item rms_norm(Call& c) {
  const ValueId x = c.tensor("input");
  ir::LayerNormAttrs attrs;
  attrs.axes = static_cast<int64_t>(c.ints("normalized_shape").size());
  // PyTorch's default is the machine epsilon of the type in which it computes.
  const double smallest = c.dtype(x) == DType::kF64 ? std::numeric_limits<double>::epsilon()
                                                    : static_cast<double>(std::numeric_limits<float>::epsilon());
  attrs.eps = c.has("eps") ? c.real("eps") : smallest;
  const std::vector<ValueId> r = c.ops(OpKind::kRmsNorm, {x, c.tensor_or_none("weight")}, attrs);
  if (c.kind() == OpKind::kRmsNorm) return made(r[0]);
  return with_statistics_of_rows(c, x, r, attrs.axes);
}

Item group_norm(Call& c) { return made(normalised_groups(c, c.integer("num_groups"))[0]); }
Item native_group_norm(Call& c) { return all_of(normalised_groups(c, c.integer("num_groups"))); }

// One group per channel.
Item instance_norm(Call& c) {
  if (!c.flag("use_input_stats")) return made(with_fixed_statistics(c));
  if (c.has("running_mean")) return c.fail("instance_norm that updates running statistics is not supported");
  return made(normalised_groups(c, c.extent(c.tensor("input"), 1))[0]);
}

Item batch_norm(Call& c) {
  if (!c.flag("training")) return made(with_fixed_statistics(c));
  return made(batch_norm_values(c, true)[0]);
}
// The results beyond the statistics of the batch are the updated running statistics: the buffers, which the operator
// writes in place. What reads them comes later in the program.
Item batch_norm_results(Call& c) {
  if (!c.flag("training"))
    return Item::of_list(
        {made(with_fixed_statistics(c)), nothing(c), nothing(c), c.arg("running_mean"), c.arg("running_var")});
  Item out = all_of(batch_norm_values(c, true));
  out.list.resize(5);
  if (c.has("running_mean")) out.list[3] = made(c.tensor("running_mean"));
  if (c.has("running_var")) out.list[4] = made(c.tensor("running_var"));
  return out;
}
// Its fourth result is what its derivative needs.
Item batch_norm_updated(Call& c) {
  Item out = all_of(batch_norm_values(c, true));
  out.list.push_back(Item::none());
  return out;
}
Item batch_norm_statistics(Call& c) { return all_of(batch_norm_values(c, false)); }
Item batch_norm_evaluated(Call& c) { return Item::of_list({made(with_fixed_statistics(c)), nothing(c), nothing(c)}); }

// sum(a / max(|a|, eps) * b / max(|b|, eps)). PyTorch raises the norms out of its gradient's sight: that of a norm
// below eps is the norm's own.
Item cosine_similarity(Call& c) {
  std::vector<ValueId> scaled;
  const ValueId a = c.tensor("x1"), b = c.tensor("x2");
  const size_t rank = static_cast<size_t>(std::max(c.rank(a), c.rank(b)));
  const int64_t d = c.dim("dim", rank);
  for (ValueId x : {a, b}) {
    const int64_t own = d - (static_cast<int64_t>(rank) - c.rank(x));
    if (own < 0) return c.fail("cosine_similarity along an axis that one operand lacks");
    const ValueId norm = root_of_squares(c.builder(), c.sum(c.binary(OpKind::kMul, x, x), {own}, true));
    const ValueId least = c.scalar(c.real("eps"), c.dtype(norm));
    const ValueId nothing = c.binary(OpKind::kSub, norm, c.op(OpKind::kDetach, {norm}));
    const ValueId raised = c.binary(OpKind::kAdd, nothing, least);
    const ValueId low = c.binary(OpKind::kLt, norm, least);
    scaled.push_back(c.binary(OpKind::kDiv, x, c.op(OpKind::kWhere, {low, raised, norm})));
  }
  return made(c.sum(c.binary(OpKind::kMul, scaled[0], scaled[1]), {d}, false));
}

// v g / |v|, the norm over all axes but `dim` (torch.nn.utils.weight_norm); over all of them where `dim` is -1.
Item weight_norm(Call& c) {
  const ValueId v = c.tensor("v");
  std::vector<int64_t> axes;
  for (int64_t axis = 0; axis < c.rank(v); ++axis)
    if (axis != c.integer("dim")) axes.push_back(axis);
  const ValueId norm = c.op(OpKind::kSqrt, {c.sum(c.op(OpKind::kMul, {v, v}), axes, true)});
  return made(c.binary(OpKind::kMul, v, c.binary(OpKind::kDiv, c.tensor("g"), norm)));
}

}  // namespace piper::frontend::aten
