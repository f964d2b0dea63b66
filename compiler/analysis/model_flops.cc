#include "compiler/analysis/model_flops.h"

#include <algorithm>
#include <vector>

#include "compiler/autodiff/autodiff.h"
#include "compiler/analysis/op_roles.h"

namespace piper::analysis {
namespace {

using ir::OpKind;
using ValueMarks = std::vector<bool>;  // [value]

bool is_marked(const ValueMarks& marks, ir::ValueId value) { return value.valid() && marks[value.index]; }

bool any_marked(const ValueMarks& marks, const std::vector<ir::ValueId>& values) {
  return std::any_of(values.begin(), values.end(), [&](ir::ValueId value) { return is_marked(marks, value); });
}

bool passes_gradients(const ir::Op& op) { return autodiff::passes_gradient(op.kind); }

// A trained parameter, or what depends on one.
ValueMarks values_that_need_gradients(const ir::Graph& graph) {
  ValueMarks needs(graph.num_values(), false);
  for (const ir::Parameter& parameter : graph.parameters())
    needs[parameter.value.index] = parameter.trainable && is_floating(graph.type(parameter.value).dtype);
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const ir::Op& op = graph.op(ir::OpId(i));
    if (!passes_gradients(op) || !any_marked(needs, op.operands)) continue;
    for (const ir::ValueId result : op.results) needs[result.index] = is_floating(graph.type(result).dtype);
  }
  return needs;
}

// What the loss is computed from; with `by_gradients`, through operators with a derivative alone.
ValueMarks values_behind_loss(const ir::Graph& graph, bool by_gradients) {
  ValueMarks behind(graph.num_values(), false);
  for (const ir::ValueId loss : graph.all_losses()) behind[loss.index] = true;
  for (size_t i = graph.num_ops(); i-- > 0;) {
    const ir::Op& op = graph.op(ir::OpId(i));
    if ((by_gradients && !passes_gradients(op)) || !any_marked(behind, op.results)) continue;
    for (const ir::ValueId operand : op.operands)
      if (operand.valid()) behind[operand.index] = true;
  }
  return behind;
}

// Products of the backward, each as large as one of the forward's.
double backward_products(const ir::Op& op, const ValueMarks& needs) {
  if (op.kind != OpKind::kSdpa) return is_marked(needs, op.operands[0]) + is_marked(needs, op.operands[1]);
  const int q = is_marked(needs, op.operands[0]), k = is_marked(needs, op.operands[1]);
  return is_marked(needs, op.operands[2]) + q + k + (q + k > 0 ? 1 : 0);  // the last one: the scores' gradient
}

}  // namespace

double product_flops(const ir::Graph& graph, const ir::Op& op) {
  const auto out = [&] { return static_cast<double>(graph.type(op.results[0]).elements()); };
  switch (op.kind) {
    case OpKind::kMatmul:
    case OpKind::kLinear:
    case OpKind::kGroupedMatmul: return 2 * out() * static_cast<double>(graph.type(op.operands[0]).shape.back());
    case OpKind::kLinearCrossEntropy:
      return 2 * static_cast<double>(graph.type(op.operands[0]).elements() * graph.type(op.operands[1]).shape[0]);
    case OpKind::kConvolution: {
      const ir::TensorType& weight = graph.type(op.operands[1]);
      return 2 * out() * static_cast<double>(weight.elements()) /
             static_cast<double>(std::max<int64_t>(1, weight.shape[0]));
    }
    case OpKind::kSdpa: {
      const std::vector<int64_t>& keys = graph.type(op.operands[1]).shape;  // [B, H, T, D]
      return 4 * out() * static_cast<double>(keys[keys.size() - 2]);
    }
    default: return 0;
  }
}

double model_flops(const ir::Graph& graph) {
  const std::vector<OpRole> roles = op_roles(graph);
  const ValueMarks needs = values_that_need_gradients(graph), read = values_behind_loss(graph, false),
                   with_gradient = values_behind_loss(graph, true);
  double flops = 0;
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const ir::Op& op = graph.op(ir::OpId(i));
    const double forward = product_flops(graph, op);
    if (forward == 0 || roles[i] != OpRole::kWork || !any_marked(read, op.results)) continue;
    const double one = op.kind == OpKind::kSdpa ? forward / 2 : forward;
    flops += forward + (any_marked(with_gradient, op.results) ? one * backward_products(op, needs) : 0);
  }
  return flops;
}

}  // namespace piper::analysis
