// Element-wise operators of one operand.
#include <limits>

#include "compiler/frontend/exact_integers.h"
#include "compiler/frontend/onnx/ops.h"

namespace piper::frontend::onnx {

void import_abs(NodeImport& n) { n.unary(OpKind::kAbs); }
void import_is_nan(NodeImport& n) { n.unary(OpKind::kIsNan); }
void import_logical_not(NodeImport& n) { n.unary(OpKind::kLogicalNot); }
void import_neg(NodeImport& n) { n.unary(OpKind::kNeg); }
void import_sign(NodeImport& n) { n.unary(OpKind::kSign); }

void import_is_inf(NodeImport& n) {
  const ValueId x = n.in(0);
  const bool negative = n.int_attr("detect_negative", 1) != 0, positive = n.int_attr("detect_positive", 1) != 0;
  constexpr double kInf = std::numeric_limits<double>::infinity();
  if (negative && positive) return n.result(OpKind::kEq, {n.emit(OpKind::kAbs, {x}), n.scalar_like(kInf, x)});
  if (!negative && !positive) return n.result(OpKind::kLt, {x, x});  // never
  n.result(OpKind::kEq, {x, n.scalar_like(positive ? kInf : -kInf, x)});
}

// log(sigmoid(x)) is log_sigmoid(x), which stays finite where the sigmoid is 0.
void import_log(NodeImport& n) {
  const ValueId x = n.in(0);
  if (const ir::Op* sigmoid = n.made_by(x, OpKind::kSigmoid)) {
    const ValueId inner = sigmoid->operands[0];
    return n.result(OpKind::kLogSigmoid, {inner});
  }
  n.result(OpKind::kLog, {x});
}

// 1 / sqrt(x) is how exporters write rsqrt.
void import_reciprocal(NodeImport& n) {
  const ValueId x = n.in(0);
  if (const ir::Op* root = n.made_by(x, OpKind::kSqrt)) {
    const ValueId inner = root->operands[0];
    return n.result(OpKind::kRsqrt, {inner});
  }
  n.result(OpKind::kReciprocal, {x});
}

void import_identity(NodeImport& n) {
  if (n.has(0) && n.num_inputs() == 1) {
    const auto found = n.state().values.find(n.node().inputs[0]);
    if (found != n.state().values.end() && found->second.is_sequence) return n.set_sequence(0, found->second.items);
  }
  const ValueId x = n.in(0);
  const std::string_view* call = n.node().metadata.find("pkg.torch.onnx.fx_node");
  if (call != nullptr && call->find("target=torch.ops.aten.detach.") != std::string::npos)
    return n.result(OpKind::kDetach, {x});
  n.set(0, x);
}

void import_cast(NodeImport& n) {
  const ValueId x = n.in(0);
  const int64_t code = n.int_attr("to", 0);
  const std::optional<DType> to = dtype_of(static_cast<int32_t>(code));
  if (!to)
    return n.refuse("it casts to " + elem_type_name(static_cast<int32_t>(code)) +
                    "; piper has FLOAT, DOUBLE, BFLOAT16, INT64, INT32 and BOOL");
  if (n.dtype(x) == *to) return n.set(0, x);
  n.result(OpKind::kCast, {x}, ir::CastAttrs{*to});
}

void import_cast_like(NodeImport& n) {
  const ValueId x = n.in(0);
  const DType to = n.dtype(n.in(1));
  if (n.dtype(x) == to) return n.set(0, x);
  n.result(OpKind::kCast, {x}, ir::CastAttrs{to});
}

void import_clip(NodeImport& n) {
  ValueId x = n.in(0);
  constexpr double kInf = std::numeric_limits<double>::infinity();
  double low = -kInf, high = kInf;
  bool numbers = true;
  for (const size_t i : {size_t{1}, size_t{2}}) {
    if (!n.has(i)) continue;
    const std::optional<double> v = n.known_number(n.in(i));
    if (v && is_exact(n.dtype(x), *v)) (i == 1 ? low : high) = *v;
    else numbers = false;
  }
  if (!n.ok()) return;
  if (numbers) return n.result(OpKind::kClamp, {x}, ir::ClampAttrs{low, high});
  if (n.has(1)) x = n.emit(OpKind::kMaximum, {x, n.in(1)});
  if (n.has(2)) x = n.emit(OpKind::kMinimum, {x, n.in(2)});
  n.set(0, x);
}

}  // namespace piper::frontend::onnx
