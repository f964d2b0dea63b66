// Normalisations, and group normalisation as exporters write it for opsets below 21.
#include "compiler/frontend/onnx/ops.h"
#include "compiler/ir/shapes.h"

namespace piper::frontend::onnx {
namespace {

const ir::GroupNormAttrs& group_attrs(const ir::Op& op) { return std::get<ir::GroupNormAttrs>(op.attrs); }

// The vector [C] after a value of shape [C, 1, ..] or [1, C, 1, ..]; nullopt where there is none.
std::optional<ValueId> channel_vector(NodeImport& n, ValueId v, int64_t channels, int64_t rank) {
  const Extents shape = n.shape(v);
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
  if (!n.ok()) return;
  if (n.is_read(1) || n.is_read(2)) {  // statistics, which have a gradient, other than those of PyTorch
    std::vector<int64_t> dims;
    for (int64_t d = axis; d < rank; ++d) dims.push_back(d);
    const std::vector<ValueId> both = n.call_all("aten.var_mean.correction", {x, dims, 0, true});
    n.set(1, both[1]);
    n.set(2, n.emit(OpKind::kRsqrt, {n.emit(OpKind::kAdd, {both[0], n.scalar_like(eps, x)})}));
  }
  const Extents shape = n.shape(x), normal(shape.begin() + axis, shape.end());
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
  const Extents shape = n.shape(x);
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
  const Extents shape = n.shape(x);
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
  const Extents grouped = n.shape(x);
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

// x / |x| along an axis; 0 where the norm is.
void import_lp_normalization(NodeImport& n) {
  const ValueId x = n.in(0);
  const int64_t order = n.int_attr("p", 2);
  const std::vector<int64_t> axes{n.axis(n.int_attr("axis", -1), n.rank(x))};
  if (order != 1 && order != 2) return n.refuse("its order " + std::to_string(order) + " is neither 1 nor 2");
  const ValueId norm = n.call("aten.linalg_vector_norm.default", {x, order, axes, true}), zero = n.scalar_like(0, x);
  const ValueId none = n.emit(OpKind::kEq, {norm, zero});
  const ValueId safe = n.emit(OpKind::kWhere, {none, n.scalar_like(1, x), norm});
  n.result(OpKind::kWhere, {none, zero, n.emit(OpKind::kDiv, {x, safe})});
}

// (x - mean) / (deviation + 1e-9): the mean and deviation along axes.
void import_mean_variance_normalization(NodeImport& n) {
  const ValueId x = n.in(0);
  std::vector<int64_t> axes = n.ints_attr("axes", {0, 2, 3});
  for (int64_t& d : axes) d = n.axis(d, n.rank(x));
  const std::vector<ValueId> both = n.call_all("aten.std_mean.correction", {x, axes, 0, true});
  const ValueId deviation = n.emit(OpKind::kAdd, {both[0], n.scalar_like(1e-9, x)});
  n.result(OpKind::kDiv, {n.emit(OpKind::kSub, {x, both[1]}), deviation});
}

// x / (bias + alpha / size * the sum of squares of `size` channels around)^beta
void import_lrn(NodeImport& n) {
  const ValueId x = n.in(0);
  const int64_t size = n.int_attr("size", 0);
  const double alpha = n.float_attr("alpha", 0.0001), beta = n.float_attr("beta", 0.75), bias = n.float_attr("bias", 1);
  if (!n.ok()) return;
  if (n.rank(x) < 2 || size < 1 || size > 4096) return n.refuse("it wants channels and a size");
  const std::vector<int64_t> none(static_cast<size_t>(n.rank(x)), 0);
  ir::PadAttrs around{none, none, 0};
  around.low[1] = (size - 1) / 2;
  around.high[1] = size / 2;
  const ValueId squares = n.emit(OpKind::kPad, {n.emit(OpKind::kMul, {x, x})}, std::move(around));
  const int64_t channels = n.ok() ? n.shape(x)[1] : 0;
  ValueId total;
  for (int64_t i = 0; i < size && n.ok(); ++i) {
    const ValueId one = n.slice(squares, 1, i, i + channels);
    total = total.valid() ? n.emit(OpKind::kAdd, {total, one}) : one;
  }
  if (!n.ok()) return;
  const ValueId share = n.emit(OpKind::kMul, {total, n.scalar_like(alpha / static_cast<double>(size), x)});
  const ValueId base = n.emit(OpKind::kAdd, {share, n.scalar_like(bias, x)});
  n.result(OpKind::kMul, {x, n.emit(OpKind::kPowScalar, {base}, ir::ExponentAttrs{-beta})});
}

// 1 at the first of the greatest elements of an axis, else 0; no gradient.
void import_hardmax(NodeImport& n) {
  const ValueId x = n.in(0);
  const int64_t axis = n.axis(n.int_attr("axis", -1), n.rank(x));
  if (!n.ok()) return;
  const ValueId place = n.call("aten.argmax.default", {x, axis, true});
  std::vector<int64_t> shape(static_cast<size_t>(n.rank(x)), 1), places;
  shape[static_cast<size_t>(axis)] = n.shape(x)[static_cast<size_t>(axis)];
  for (int64_t i = 0; i < shape[static_cast<size_t>(axis)]; ++i) places.push_back(i);
  n.result(OpKind::kCast, {n.emit(OpKind::kEq, {place, n.constant_i64(shape, places)})}, ir::CastAttrs{n.dtype(x)});
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
