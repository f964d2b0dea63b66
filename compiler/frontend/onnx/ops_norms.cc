// Normalisations, and group normalisation as exporters write it for opsets below 21.
#include "compiler/frontend/onnx/ops.h"
#include "compiler/ir/shapes.h"

namespace piper::frontend::onnx {
namespace {

const ir::GroupNormAttrs& group_attrs(const ir::Op& op) { return std::get<ir::GroupNormAttrs>(op.attrs); }

// The vector [C] after a value of shape [C, 1, ..] or [1, C, 1, ..]; nullopt where there is none.
std::optional<ValueId> channel_vector(NodeImport& n, ValueId v, int64_t channels, int64_t rank) {
  const std::vector<int64_t> shape = n.shape(v);
  const auto size = static_cast<int64_t>(shape.size());
  if (size < rank - 1 || size > rank || shape[static_cast<size_t>(size - (rank - 1))] != channels) return std::nullopt;
  if (ir::elements(shape) != channels) return std::nullopt;
  if (const ir::Op* reshape = n.made_by(v, OpKind::kReshape))
    if (n.rank(reshape->operands[0]) == 1) return reshape->operands[0];
  return std::nullopt;
}

// The scale and shift of a norm over trailing axes: absent where the exporter wrote ones and zeros.
struct Affine {
  ValueId scale, shift;
};

void trailing_norm(NodeImport& n, OpKind kind, double eps) {
  const ValueId x = n.in(0);
  const int64_t rank = n.rank(x), axis = n.axis(n.int_attr("axis", -1), rank);
  Affine affine{n.in_or_none(1), kind == OpKind::kLayerNorm ? n.in_or_none(2) : ValueId()};
  for (size_t i = 1; i < n.node().outputs.size(); ++i)
    if (n.is_read(i)) n.refuse("its result " + std::to_string(i) + " (mean, inverse deviation) is not supported");
  if (!n.ok()) return;
  const std::vector<int64_t> shape = n.shape(x), normal(shape.begin() + axis, shape.end());
  if (affine.scale.valid() && n.known_number(affine.scale) == 1.0) affine.scale = ValueId();
  if (affine.shift.valid() && n.known_number(affine.shift) == 0.0) affine.shift = ValueId();
  const ir::LayerNormAttrs attrs{rank - axis, eps};
  const bool fits = (!affine.scale.valid() || n.shape(affine.scale) == normal) &&
                    (!affine.shift.valid() || n.shape(affine.shift) == normal);
  if (fits) {
    std::vector<ValueId> operands = {x};
    if (affine.scale.valid() || affine.shift.valid()) operands.push_back(affine.scale);
    if (affine.shift.valid()) operands.push_back(affine.shift);
    return n.result(kind, operands, attrs);
  }
  ValueId y = n.emit(kind, {x}, attrs);
  if (affine.scale.valid()) y = n.emit(OpKind::kMul, {y, affine.scale});
  if (affine.shift.valid()) y = n.emit(OpKind::kAdd, {y, affine.shift});
  n.set(0, y);
}

// The running statistic that operand i names, as a buffer: files without the exporter's signature
// do not say that a step changes it.
ValueId running_statistic(NodeImport& n, size_t i) {
  const ValueId v = n.in(i);
  const ir::Value& value = n.graph().value(v);
  if (!n.ok() || value.kind == ir::ValueKind::kBuffer) return v;
  if (value.kind != ir::ValueKind::kConstant) {
    n.refuse("its running statistics are not stored in the model", "P0324");
    return v;
  }
  const ir::WeightSource source = n.graph().constants()[value.payload].source;
  const ir::TensorType type = value.type;
  const ValueId buffer = n.graph().add_buffer({n.node().inputs[i]}, type, source);
  n.state().values[n.node().inputs[i]] = {buffer, false, {}};
  return buffer;
}

}  // namespace

void import_layer_normalization(NodeImport& n) { trailing_norm(n, OpKind::kLayerNorm, n.float_attr("epsilon", 1e-5)); }
void import_rms_normalization(NodeImport& n) { trailing_norm(n, OpKind::kRmsNorm, n.float_attr("epsilon", 1e-5)); }

// Below opset 21 scale and shift have one element per group.
void import_group_normalization(NodeImport& n) {
  const ValueId x = n.in(0);
  ValueId scale = n.in(1), shift = n.in(2);
  const int64_t groups = n.int_attr("num_groups", 0);
  if (!n.ok()) return;
  const std::vector<int64_t> shape = n.shape(x);
  if (shape.size() < 2 || groups < 1 || shape[1] % groups != 0)
    return n.refuse("its groups do not divide its channels");
  const int64_t channels = shape[1];
  if (n.shape(scale) == std::vector<int64_t>{groups} && n.shape(shift) == std::vector<int64_t>{groups} &&
      groups != channels) {
    const auto spread = [&](ValueId v) {
      return n.reshape(n.expand(n.reshape(v, {groups, 1}), {groups, channels / groups}), {channels});
    };
    scale = spread(scale);
    shift = spread(shift);
  }
  n.result(OpKind::kGroupNorm, {x, scale, shift}, ir::GroupNormAttrs{groups, n.float_attr("epsilon", 1e-5)});
}

void import_instance_normalization(NodeImport& n) {
  const ValueId x = n.in(0), scale = n.in(1), shift = n.in(2);
  if (!n.ok()) return;
  const std::vector<int64_t> shape = n.shape(x);
  if (shape.size() < 3) return n.refuse("it wants spatial axes");
  const ir::GroupNormAttrs attrs{shape[1], n.float_attr("epsilon", 1e-5)};
  const std::vector<int64_t> channels{shape[1]};
  const bool plain = n.known_number(scale) == 1.0 && n.known_number(shift) == 0.0 && n.shape(scale) == channels &&
                     n.shape(shift) == channels;
  if (plain) return n.result(OpKind::kGroupNorm, {x}, attrs);
  n.result(OpKind::kGroupNorm, {x, scale, shift}, attrs);
}

std::optional<ValueId> match_group_norm_reshape(NodeImport& n, ValueId x, const std::vector<int64_t>& to) {
  const ir::Op* norm = n.made_by(x, OpKind::kGroupNorm);
  if (norm == nullptr || norm->operands.size() != 1 || norm->results[0] != x) return std::nullopt;
  const ir::GroupNormAttrs attrs = group_attrs(*norm);
  const std::vector<int64_t> grouped = n.shape(x);
  const ir::Op* reshape = n.made_by(norm->operands[0], OpKind::kReshape);
  if (reshape == nullptr || grouped.size() != 3 || grouped[1] != attrs.groups || to.size() < 3) return std::nullopt;
  const ValueId original = reshape->operands[0];
  if (n.shape(original) != to || to[0] != grouped[0] || to[1] % attrs.groups != 0) return std::nullopt;
  return n.emit(OpKind::kGroupNorm, {original}, attrs, n.first_output());
}

std::optional<ValueId> match_group_norm_scale(NodeImport& n, ValueId a, ValueId b) {
  for (const auto& [x, other] : {std::pair(a, b), std::pair(b, a)}) {
    const ir::Op* norm = n.made_by(x, OpKind::kGroupNorm);
    if (norm == nullptr || norm->operands.size() != 1 || norm->results[0] != x) continue;
    const std::optional<ValueId> scale = channel_vector(n, other, n.shape(x)[1], n.rank(x));
    if (!scale) continue;
    const ir::GroupNormAttrs attrs = group_attrs(*norm);
    return n.emit(OpKind::kGroupNorm, {norm->operands[0], *scale}, attrs, n.first_output());
  }
  return std::nullopt;
}

std::optional<ValueId> match_group_norm_shift(NodeImport& n, ValueId a, ValueId b) {
  for (const auto& [x, other] : {std::pair(a, b), std::pair(b, a)}) {
    const ir::Op* norm = n.made_by(x, OpKind::kGroupNorm);
    if (norm == nullptr || norm->operands.size() != 2 || norm->results[0] != x) continue;
    const std::optional<ValueId> shift = channel_vector(n, other, n.shape(x)[1], n.rank(x));
    if (!shift) continue;
    const ir::GroupNormAttrs attrs = group_attrs(*norm);
    const ValueId inner = norm->operands[0], scale = norm->operands[1];
    return n.emit(OpKind::kGroupNorm, {inner, scale, *shift}, attrs, n.first_output());
  }
  return std::nullopt;
}

void import_batch_normalization(NodeImport& n) {
  const ValueId x = n.in(0), scale = n.in(1), shift = n.in(2);
  if (n.int_attr("training_mode", 0) == 0)
    return n.refuse(
        "it normalises with the running statistics: the export lost its training mode (batch statistics). Export with "
        "tools/piper_export.py, which keeps the call's text",
        "P0322");
  const ir::BatchNormAttrs attrs{1 - n.float_attr("momentum", 0.9), n.float_attr("epsilon", 1e-5)};
  for (const size_t i : {1, 2})
    if (n.is_computed_with(i)) n.refuse("its result " + std::to_string(i) + ", a running statistic, is computed with");
  const ValueId mean = running_statistic(n, 3), variance = running_statistic(n, 4);
  if (!n.ok()) return;
  n.result(OpKind::kBatchNorm, {x, scale, shift, mean, variance}, attrs);
  // The updated statistics are the buffers themselves after the op.
  n.set(1, mean);
  n.set(2, variance);
}

}  // namespace piper::frontend::onnx
