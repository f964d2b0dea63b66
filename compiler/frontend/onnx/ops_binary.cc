// Element-wise operators of two or more operands. ONNX wants equal element types, as the op set does.
#include <cmath>

#include "compiler/frontend/onnx/ops.h"

namespace piper::frontend::onnx {
namespace {

void binary(NodeImport& n, OpKind kind) {
  const ValueId a = n.in(0), b = n.in(1);
  n.result(kind, {a, b});
}

void variadic(NodeImport& n, OpKind kind) {
  ValueId out = n.in(0);
  for (size_t i = 1; i < n.num_inputs(); ++i) out = n.emit(kind, {out, n.in(i)});
  n.set(0, out);
}

// ONNX has no promotion, as ATen's calls do.
bool are_alike(NodeImport& n, ValueId a, ValueId b) {
  if (n.ok() && n.dtype(a) != n.dtype(b)) n.refuse("its operands are of different element types");
  return n.ok();
}

bool has_zero(NodeImport& n, ValueId v) {
  const std::optional<std::vector<int64_t>> all = n.known_ints(v);
  if (!all) return false;
  for (const int64_t x : *all)
    if (x == 0) return true;
  return false;
}

// x, where `gate` = sigmoid(x).
bool is_sigmoid_of(NodeImport& n, ValueId gate, ValueId x) {
  const ir::Op* op = n.made_by(gate, OpKind::kSigmoid);
  return op != nullptr && op->operands[0] == x;
}

}  // namespace

void import_equal(NodeImport& n) { binary(n, OpKind::kEq); }
void import_greater(NodeImport& n) { binary(n, OpKind::kGt); }
void import_greater_or_equal(NodeImport& n) { binary(n, OpKind::kGe); }
void import_less(NodeImport& n) { binary(n, OpKind::kLt); }
void import_less_or_equal(NodeImport& n) { binary(n, OpKind::kLe); }
void import_logical_and(NodeImport& n) { binary(n, OpKind::kLogicalAnd); }
void import_logical_or(NodeImport& n) { binary(n, OpKind::kLogicalOr); }
void import_logical_xor(NodeImport& n) { binary(n, OpKind::kNe); }
void import_sub(NodeImport& n) { binary(n, OpKind::kSub); }
void import_max(NodeImport& n) { variadic(n, OpKind::kMaximum); }
void import_min(NodeImport& n) { variadic(n, OpKind::kMinimum); }
void import_sum(NodeImport& n) { variadic(n, OpKind::kAdd); }

void import_mean(NodeImport& n) {
  ValueId out = n.in(0);
  for (size_t i = 1; i < n.num_inputs(); ++i) out = n.emit(OpKind::kAdd, {out, n.in(i)});
  if (n.num_inputs() == 1) return n.set(0, out);
  n.result(OpKind::kDiv, {out, n.scalar_like(static_cast<double>(n.num_inputs()), out)});
}

void import_add(NodeImport& n) {
  const ValueId a = n.in(0), b = n.in(1);
  if (!n.ok()) return;
  if (const std::optional<ValueId> y = match_linear_bias(n, a, b)) return n.set(0, *y);
  if (const std::optional<ValueId> y = match_group_norm_shift(n, a, b)) return n.set(0, *y);
  n.result(OpKind::kAdd, {a, b});
}

void import_mul(NodeImport& n) {
  const ValueId a = n.in(0), b = n.in(1);
  if (!n.ok()) return;
  if (is_sigmoid_of(n, b, a)) return n.result(OpKind::kSilu, {a});
  if (is_sigmoid_of(n, a, b)) return n.result(OpKind::kSilu, {b});
  if (const std::optional<ValueId> y = match_gelu(n, a, b)) return n.set(0, *y);
  if (const std::optional<ValueId> y = match_group_norm_scale(n, a, b)) return n.set(0, *y);
  n.result(OpKind::kMul, {a, b});
}

void import_div(NodeImport& n) {
  const ValueId a = n.in(0), b = n.in(1);
  if (!are_alike(n, a, b)) return;
  if (is_floating(n.dtype(a))) return n.result(OpKind::kDiv, {a, b});
  if (has_zero(n, b)) return n.refuse("it divides by zero");
  n.is_call("aten.div.Tensor_mode", {a, b, "trunc"});  // towards zero
}

// The sign is that of the divisor, as of Python's %; with fmod = 1 that of the dividend.
void import_mod(NodeImport& n) {
  const ValueId a = n.in(0), b = n.in(1);
  if (are_alike(n, a, b) && !is_floating(n.dtype(a)) && has_zero(n, b)) return n.refuse("it divides by zero");
  n.is_call(n.int_attr("fmod", 0) != 0 ? "aten.fmod.Tensor" : "aten.remainder.Tensor", {a, b});
}

void import_pow(NodeImport& n) {
  const ValueId a = n.in(0), b = n.in(1);
  if (!n.ok()) return;
  const std::optional<double> exponent = n.known_number(b);
  if (exponent && n.rank(b) <= n.rank(a) && is_floating(n.dtype(a)))
    return n.result(OpKind::kPowScalar, {a}, ir::ExponentAttrs{*exponent});
  if (!is_floating(n.dtype(a)) && !is_floating(n.dtype(b)))
    return n.is_call("aten.pow.Tensor_Tensor", {a, n.cast(b, n.dtype(a))});
  if (!is_floating(n.dtype(a))) return n.refuse("integers to the power of other numbers are not supported");
  n.result(OpKind::kPow, {a, n.cast(b, n.dtype(a))});
}

// Where(IsNaN(p), 0, p) of a softmax p, or Where(row is closed, 0, p), is what a file has for rows that attend to
// nothing: 0, and so is their derivative, which that of p would make no number.
static bool softmax_of_closed_rows(NodeImport& n, ValueId condition, ValueId a, ValueId b) {
  const ir::Op* softmax = n.made_by(b, OpKind::kSoftmax);
  if (softmax == nullptr || n.known_number(a) != 0.0) return false;
  const ir::DimAttrs attrs = std::get<ir::DimAttrs>(softmax->attrs);
  const ValueId logits = softmax->operands[0];
  const Extents rows = n.shape(condition), all = n.shape(b);
  const ir::Op* is_nan = n.made_by(condition, OpKind::kIsNan);
  const size_t axis = static_cast<size_t>(attrs.dim) + rows.size();  // of the condition, and all.size() more
  const bool of_rows = rows.size() <= all.size() && (axis < all.size() || rows[axis - all.size()] == 1);
  if (!of_rows && (is_nan == nullptr || is_nan->operands[0] != b)) return false;
  const ValueId open = n.emit(OpKind::kWhere, {condition, a, logits});
  n.result(OpKind::kWhere, {condition, a, n.emit(OpKind::kSoftmax, {open}, attrs)});
  return true;
}

void import_where(NodeImport& n) {
  const ValueId condition = n.in(0), a = n.in(1), b = n.in(2);
  if (!n.ok() || softmax_of_closed_rows(n, condition, a, b)) return;
  n.result(OpKind::kWhere, {condition, a, b});
}

}  // namespace piper::frontend::onnx
