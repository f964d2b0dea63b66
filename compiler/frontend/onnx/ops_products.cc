// Matrix products, and linear layers written as a transpose of their weight and a product.
#include "compiler/frontend/onnx/ops.h"

namespace piper::frontend::onnx {

std::optional<ValueId> match_linear(NodeImport& n, ValueId x, ValueId weight, const std::string& name) {
  const ir::Op* transpose = n.made_by(weight, OpKind::kPermute);
  if (transpose == nullptr || n.rank(weight) != 2 || n.rank(x) < 1) return std::nullopt;
  const ValueId w = transpose->operands[0];
  if (!n.is_parameter(w)) return std::nullopt;
  return n.emit(OpKind::kLinear, {x, w}, ir::NoAttrs{}, name);
}

std::optional<ValueId> match_linear_bias(NodeImport& n, ValueId a, ValueId b) {
  for (const auto& [product, bias] : {std::pair(a, b), std::pair(b, a)}) {
    const ir::Op* linear = n.made_by(product, OpKind::kLinear);
    if (linear == nullptr || linear->operands.size() != 2 || !n.is_parameter(bias)) continue;
    const ValueId x = linear->operands[0], w = linear->operands[1];
    if (n.shape(bias) != std::vector<int64_t>{n.shape(w)[0]}) continue;
    return n.emit(OpKind::kLinear, {x, w, bias}, ir::NoAttrs{}, n.first_output());
  }
  return std::nullopt;
}

void import_mat_mul(NodeImport& n) {
  const ValueId a = n.in(0), b = n.in(1);
  if (!n.ok()) return;
  const std::string name = n.first_output();
  if (const std::optional<ValueId> y = match_linear(n, a, b, name)) return n.set(0, *y);
  if (const std::optional<ValueId> y = match_attention(n, a, b)) return n.set(0, *y);
  if (n.dtype(a) != n.dtype(b)) return n.refuse("its operands are of different element types");
  n.is_call("aten.matmul.default", {a, b});
}

// alpha * op(A) op(B) + beta * C. With alpha = beta = 1, B transposed and a bias of one axis: linear.
void import_gemm(NodeImport& n) {
  ValueId a = n.in(0), b = n.in(1);
  const double alpha = n.float_attr("alpha", 1), beta = n.float_attr("beta", 1);
  const bool transpose_a = n.int_attr("transA", 0) != 0, transpose_b = n.int_attr("transB", 0) != 0;
  const ValueId c = n.in_or_none(2);
  if (!n.ok()) return;
  if (n.rank(a) != 2 || n.rank(b) != 2) return n.refuse("it wants two matrices");
  if (transpose_a) a = n.swap_last(a);
  const int64_t columns = n.shape(b)[transpose_b ? 0 : 1];
  const bool bias = c.valid() && beta == 1 && n.shape(c) == std::vector<int64_t>{columns};
  if (alpha == 1 && transpose_b && (bias || !c.valid()))
    return n.result(OpKind::kLinear, bias ? std::vector<ValueId>{a, b, c} : std::vector<ValueId>{a, b});
  if (!transpose_b && alpha == 1 && !c.valid())
    if (const std::optional<ValueId> y = match_linear(n, a, b, n.first_output())) return n.set(0, *y);
  ValueId y = n.emit(OpKind::kMatmul, {a, transpose_b ? n.swap_last(b) : b});
  if (alpha != 1) y = n.emit(OpKind::kMul, {y, n.scalar_like(alpha, y)});
  if (!c.valid() || beta == 0) return n.set(0, y);
  const ValueId scaled = beta == 1 ? c : n.emit(OpKind::kMul, {c, n.scalar_like(beta, c)});
  n.result(OpKind::kAdd, {y, scaled});
}

void import_einsum(NodeImport& n) {
  const std::string equation = n.string_attr("equation", "");
  std::vector<ValueId> operands;
  for (size_t i = 0; i < n.num_inputs(); ++i) operands.push_back(n.in(i));
  if (!n.ok()) return;
  for (const ValueId a : operands)
    for (const ValueId b : operands) {
      if (n.dtype(a) != n.dtype(b)) return n.refuse("its operands are of different element types");
      Extents both = n.shape(a);
      both.insert(both.end(), n.type(b).shape.begin(), n.type(b).shape.end());
      if (!count_elements(both)) return n.refuse("its operands are too large");
    }
  n.is_call("aten.einsum.default", {equation, operands});
}

}  // namespace piper::frontend::onnx
