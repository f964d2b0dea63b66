// Formulas of PyTorch's cross_entropy (also with class weights and label smoothing), nll_loss and
// mse_loss: torch.nn.functional, reductions "none", "mean" and "sum".
#include "compiler/losses/expand_losses.h"

#include <numeric>

namespace piper::losses {
namespace {

using ir::OpKind;
using ir::ValueId;

// Per target: (1 - eps) * w[t] * -logp[t] + eps / C * sum_c(w[c] * -logp[c]), 0 where ignored.
ValueId class_loss_rows(ir::GraphBuilder& b, const ir::Op& op, const ir::CrossEntropyLossAttrs& a) {
  ValueId target = op.operands[1];
  ValueId weight = op.operands.size() > 2 ? op.operands[2] : ValueId();
  const ir::TensorType logits = b.type(op.operands[0]);
  const std::vector<int64_t> rows = b.type(target).shape;
  ValueId logp = op.operands[0];
  if (op.kind == OpKind::kCrossEntropyLoss) logp = b.add1(OpKind::kLogSoftmax, {logp}, ir::DimAttrs{1});
  if (weight.valid()) {
    std::vector<int64_t> column(logits.shape.size(), 1);
    column[1] = logits.shape[1];
    logp = b.add1(OpKind::kMul, {logp, b.reshape(weight, column)});
  }
  ValueId ignored = b.add1(OpKind::kEq, {target, b.scalar(static_cast<double>(a.ignore_index), DType::kI64)});
  ValueId safe = b.add1(OpKind::kWhere, {ignored, b.scalar(0, DType::kI64), target});
  ValueId picked = b.add1(OpKind::kGather, {logp, b.unsqueeze(safe, 1)}, ir::DimAttrs{1});
  ValueId loss = b.add1(OpKind::kNeg, {b.reshape(picked, rows)});
  if (op.kind == OpKind::kCrossEntropyLoss && a.label_smoothing != 0) {
    double spread = a.label_smoothing / static_cast<double>(logits.shape[1]);
    ValueId kept = b.add1(OpKind::kMul, {loss, b.scalar(1 - a.label_smoothing, logits.dtype)});
    ValueId all = b.add1(OpKind::kMul, {b.sum(logp, {1}, false), b.scalar(-spread, logits.dtype)});
    loss = b.add1(OpKind::kAdd, {kept, all});
  }
  return b.add1(OpKind::kWhere, {ignored, b.scalar(0, logits.dtype), loss});
}

}  // namespace

ValueId expand_class_loss(ir::GraphBuilder& b, const ir::Op& op, ValueId inverse) {
  const auto& a = std::get<ir::CrossEntropyLossAttrs>(op.attrs);
  if (a.reduction == "none") return class_loss_rows(b, op, a);
  OpKind kind = op.kind == OpKind::kNllLoss ? OpKind::kNllSum : OpKind::kCrossEntropySum;
  const DType type = b.type(op.operands[0]).dtype;
  ValueId sum = b.add(kind, op.operands, ir::CrossEntropyAttrs{a.ignore_index, a.label_smoothing})[0];
  sum = b.cast(sum, loss_sum_type(type));
  return b.cast(inverse.valid() ? b.add1(OpKind::kMul, {sum, inverse}) : sum, type);
}

ValueId expand_squared_error(ir::GraphBuilder& b, const ir::Op& op, int64_t pieces) {
  const std::string& reduction = std::get<ir::ReductionAttrs>(op.attrs).reduction;
  const DType own = b.type(op.operands[0]).dtype;
  ValueId difference = b.cast(b.add1(OpKind::kSub, {op.operands[0], op.operands[1]}), loss_sum_type(own));
  ValueId square = b.add1(OpKind::kMul, {difference, difference});
  if (reduction == "none") return b.cast(square, own);
  const ir::TensorType type = b.type(square);
  std::vector<int64_t> dims(type.shape.size());
  std::iota(dims.begin(), dims.end(), 0);
  ValueId sum = b.sum(square, dims, false);
  if (reduction == "sum") return b.cast(sum, own);
  double count = static_cast<double>(type.elements()) * static_cast<double>(pieces);
  return b.cast(b.add1(OpKind::kDiv, {sum, b.scalar(count, type.dtype)}), own);
}

}  // namespace piper::losses
