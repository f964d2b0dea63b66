// Activations; those that the op set does not have are written out by their formulas in the ONNX
// operator reference.
#include <cmath>

#include "compiler/frontend/formulas.h"
#include "compiler/frontend/onnx/ops.h"

namespace piper::frontend::onnx {
namespace {

// x, where v = 1 + erf(x / sqrt(2)).
std::optional<ValueId> erf_gate_of(NodeImport& n, ValueId v) {
  const ir::Op* add = n.made_by(v, OpKind::kAdd);
  if (add == nullptr) return std::nullopt;
  const bool second = n.known_number(add->operands[1]) == 1.0;
  if (!second && n.known_number(add->operands[0]) != 1.0) return std::nullopt;
  const ir::Op* erf = n.made_by(add->operands[second ? 0 : 1], OpKind::kErf);
  if (erf == nullptr) return std::nullopt;
  const ValueId inner = erf->operands[0];
  const auto near = [](std::optional<double> c, double wanted) { return c && std::abs(*c - wanted) < 1e-6; };
  if (const ir::Op* div = n.made_by(inner, OpKind::kDiv);
      div != nullptr && near(n.known_number(div->operands[1]), std::sqrt(2.0)))
    return div->operands[0];
  if (const ir::Op* mul = n.made_by(inner, OpKind::kMul))
    for (const size_t i : {size_t{0}, size_t{1}})
      if (near(n.known_number(mul->operands[1 - i]), std::sqrt(0.5))) return mul->operands[i];
  return std::nullopt;
}

}  // namespace

std::optional<ValueId> match_gelu(NodeImport& n, ValueId a, ValueId b) {
  for (const auto& [outer, pair] : {std::pair(a, b), std::pair(b, a)}) {
    const ir::Op* mul = n.made_by(pair, OpKind::kMul);
    if (mul == nullptr) continue;
    const ValueId factors[] = {outer, mul->operands[0], mul->operands[1]};
    for (size_t gate = 0; gate < 3; ++gate) {
      const std::optional<ValueId> x = erf_gate_of(n, factors[gate]);
      if (!x || n.shape(*x) != n.shape(factors[gate])) continue;
      const ValueId left = factors[(gate + 1) % 3], right = factors[(gate + 2) % 3];
      const bool matches = (left == *x && n.known_number(right) == 0.5) || (right == *x && n.known_number(left) == 0.5);
      if (matches) return n.emit(OpKind::kGelu, {*x}, ir::GeluAttrs{}, n.first_output());
    }
  }
  return std::nullopt;
}

void import_relu(NodeImport& n) { n.unary(OpKind::kRelu); }
void import_softplus(NodeImport& n) { n.unary(OpKind::kSoftplus); }
void import_softmax(NodeImport& n) { n.is_call("aten.softmax.int", {n.in(0), n.int_attr("axis", -1)}); }
void import_log_softmax(NodeImport& n) { n.is_call("aten.log_softmax.int", {n.in(0), n.int_attr("axis", -1)}); }

void import_leaky_relu(NodeImport& n) { n.is_call("aten.leaky_relu.default", {n.in(0), n.float_attr("alpha", 0.01)}); }

void import_gelu(NodeImport& n) {
  const std::string approximate = n.string_attr("approximate", "none");
  if (approximate != "none" && approximate != "tanh")
    return n.refuse("its approximation '" + approximate + "' is unknown");
  n.is_call("aten.gelu.default", {n.in(0), approximate});
}

namespace {
ValueId swish(NodeImport& n, ValueId x, double alpha) {
  if (alpha == 1) return n.call("aten.silu.default", {x});
  return n.emit(OpKind::kMul, {x, n.emit(OpKind::kSigmoid, {n.emit(OpKind::kMul, {x, n.scalar_like(alpha, x)})})});
}
}  // namespace

void import_swish(NodeImport& n) { n.set_all({swish(n, n.in(0), n.float_attr("alpha", 1))}); }
void import_swi_glu(NodeImport& n) {
  const ValueId x = n.in(0), other = n.in(1);
  if (n.ok() && n.shape(x) != n.shape(other)) return n.refuse("its operands are of different shapes");
  n.result(OpKind::kMul, {swish(n, x, n.float_attr("alpha", 1)), other});
}

void import_mish(NodeImport& n) { n.is_call("aten.mish.default", {n.in(0)}); }

void import_softsign(NodeImport& n) {
  const ValueId x = n.in(0);
  n.result(OpKind::kDiv, {x, n.emit(OpKind::kAdd, {n.emit(OpKind::kAbs, {x}), n.scalar_like(1, x)})});
}

void import_hard_sigmoid(NodeImport& n) {
  const ValueId x = n.in(0), slope = n.scalar_like(n.float_attr("alpha", 0.2), x);
  const ValueId line =
      n.emit(OpKind::kAdd, {n.emit(OpKind::kMul, {x, slope}), n.scalar_like(n.float_attr("beta", 0.5), x)});
  if (n.ok()) n.set(0, clamped_inside(n.builder(), line, 0, 1));
}

void import_hard_swish(NodeImport& n) { n.is_call("aten.hardswish.default", {n.in(0)}); }

void import_thresholded_relu(NodeImport& n) {
  const ValueId x = n.in(0), zero = n.scalar_like(0, x);
  n.result(OpKind::kWhere, {n.emit(OpKind::kGt, {x, n.scalar_like(n.float_attr("alpha", 1), x)}), x, zero});
}

// Outside of [-lambd, lambd] nearer to it by the bias, inside 0.
void import_shrink(NodeImport& n) {
  const ValueId x = n.in(0);
  const double lambd = n.float_attr("lambd", 0.5);
  const ValueId bias = n.scalar_like(n.float_attr("bias", 0), x), zero = n.scalar_like(0, x);
  const ValueId above = n.emit(OpKind::kGt, {x, n.scalar_like(lambd, x)});
  const ValueId below = n.emit(OpKind::kLt, {x, n.scalar_like(-lambd, x)});
  const ValueId upper = n.emit(OpKind::kWhere, {above, n.emit(OpKind::kSub, {x, bias}), zero});
  n.result(OpKind::kWhere, {below, n.emit(OpKind::kAdd, {x, bias}), upper});
}

void import_elu(NodeImport& n) { n.is_call("aten.elu.default", {n.in(0), n.float_attr("alpha", 1)}); }

void import_celu(NodeImport& n) {
  const double alpha = n.float_attr("alpha", 1);
  if (alpha == 0) return n.refuse("its alpha is 0");
  n.is_call("aten.celu.default", {n.in(0), alpha});
}

void import_selu(NodeImport& n) {
  n.is_call("aten.elu.default", {n.in(0), n.float_attr("alpha", 1.67326319217681884765625),
                                 n.float_attr("gamma", 1.05070102214813232421875)});
}

void import_prelu(NodeImport& n) {
  const ValueId x = n.in(0), slope = n.in(1);
  n.result(OpKind::kWhere, {n.emit(OpKind::kGt, {x, n.scalar_like(0, x)}), x, n.emit(OpKind::kMul, {x, slope})});
}

}  // namespace piper::frontend::onnx
