// Losses, and dropout with its counter-based key.
#include <xxhash.h>

#include "compiler/frontend/onnx/ops.h"
#include "compiler/ir/shapes.h"

namespace piper::frontend::onnx {
namespace {

// PyTorch's default. A file without ignore_index ignores nothing: no label is negative there.
constexpr int64_t kDefaultIgnoreIndex = -100;

void class_loss(NodeImport& n, OpKind kind) {
  const ValueId scores = n.in(0), labels = n.cast(n.in(1), DType::kI64), weight = n.in_or_none(2);
  ir::CrossEntropyLossAttrs attrs;
  attrs.reduction = n.string_attr("reduction", "mean");
  attrs.ignore_index = n.int_attr("ignore_index", kDefaultIgnoreIndex);
  if (attrs.reduction != "mean" && attrs.reduction != "sum" && attrs.reduction != "none")
    return n.refuse("its reduction '" + attrs.reduction.substr(0, 40) + "' is unknown");
  if (!n.ok()) return;
  if (n.is_read(1)) n.set(1, n.call("aten.log_softmax.int", {scores, 1}));
  std::vector<ValueId> operands = {scores, labels};
  if (weight.valid()) operands.push_back(weight);
  n.result(kind, operands, attrs);
}

// (x, y) where v = x - y.
std::optional<std::pair<ValueId, ValueId>> difference(NodeImport& n, ValueId v) {
  const ir::Op* sub = n.made_by(v, OpKind::kSub);
  if (sub == nullptr) return std::nullopt;
  return std::pair(sub->operands[0], sub->operands[1]);
}

}  // namespace

// Float labels (probabilities of classes) come as invalid ONNX; type inference names them.
void import_softmax_cross_entropy_loss(NodeImport& n) {
  if (n.has(1) && is_floating(n.dtype(n.in(1))))
    return n.refuse("its labels are floating point (probabilities of classes), which is not supported");
  class_loss(n, OpKind::kCrossEntropyLoss);
}

void import_negative_log_likelihood_loss(NodeImport& n) {
  if (n.has(1) && is_floating(n.dtype(n.in(1)))) return n.refuse("its labels are floating point");
  class_loss(n, OpKind::kNllLoss);
}

std::optional<ValueId> match_mse_loss(NodeImport& n, ValueId squares) {
  std::optional<std::pair<ValueId, ValueId>> parts;
  if (const ir::Op* mul = n.made_by(squares, OpKind::kMul)) {
    const ValueId a = mul->operands[0], b = mul->operands[1];
    parts = difference(n, a);
    if (parts && parts != difference(n, b)) return std::nullopt;
  } else if (const ir::Op* pow = n.made_by(squares, OpKind::kPowScalar)) {
    if (std::get<ir::ExponentAttrs>(pow->attrs).exponent == 2) parts = difference(n, pow->operands[0]);
  }
  if (!parts || !is_floating(n.dtype(squares)) || n.shape(parts->first) != n.shape(parts->second)) return std::nullopt;
  return n.emit(OpKind::kMseLoss, {parts->first, parts->second}, ir::ReductionAttrs{"mean"}, n.first_output());
}

// Without training_mode dropout passes its operand on. It still counts among its module's dropouts,
// so that keys do not depend on the import route.
void import_dropout(NodeImport& n) {
  const ValueId x = n.in(0);
  double ratio = 0.5;
  if (n.has(1)) {
    const std::optional<double> r = n.known_number(n.in(1));
    if (!r) return n.refuse("its ratio is not known when the model is compiled", "P0323");
    ratio = *r;
  }
  const bool training = n.has(2) && n.one_int(n.in(2), "training_mode") != 0;
  if (n.is_read(1)) n.refuse("its second result, the mask, is not supported");
  if (!n.ok()) return;
  if (!(ratio >= 0 && ratio < 1))
    return n.refuse("its ratio of " + std::to_string(ratio) + " is not in [0, 1)", "P0325");
  if (ratio == 0) return n.set(0, x);
  const int64_t ordinal = n.state().calls.dropouts[n.module()]++;
  if (!training) return n.set(0, x);
  const std::string place = n.module() + "/" + std::to_string(ordinal);
  ir::DropoutAttrs attrs;
  attrs.p = ratio;
  attrs.key = static_cast<int64_t>(XXH64(place.data(), place.size(), 0));
  const Extents shape = n.shape(x);
  // The batch is the leading axis until track_batch has found it.
  attrs.batch = shape.empty() ? 1 : shape[0];
  if (!shape.empty()) attrs.inner = ir::elements_behind(shape, 0);
  n.result(OpKind::kDropout, {x, n.graph().seed_step(), n.graph().sample_offset()}, attrs);
}

}  // namespace piper::frontend::onnx
