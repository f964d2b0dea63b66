#include "compiler/analysis/operand_types.h"

#include <algorithm>

#include "schemas/base/glob.h"

namespace piper::analysis {
namespace {

using ir::OpKind;
using ir::Takes;

// Marks the products that the values chosen among are made of.
void keep_products_before_choices(const ir::Graph& graph, std::vector<Takes>& ops) {
  std::vector<bool> chosen(graph.num_values(), false);
  for (size_t i = graph.num_ops(); i-- > 0;) {
    const ir::Op& op = graph.op(ir::OpId(i));
    if (op.kind == OpKind::kTopk) {
      chosen[op.operands[0].index] = true;
      continue;
    }
    if (std::none_of(op.results.begin(), op.results.end(), [&](ir::ValueId v) { return chosen[v.index]; })) continue;
    if (ops[i] == Takes::kCompute) {
      ops[i] = Takes::kF32;
      continue;
    }
    for (ir::ValueId operand : op.operands)
      if (operand.valid() && is_floating(graph.type(operand).dtype)) chosen[operand.index] = true;
  }
}

// A bias that is added to what places have summed is that of their product, which takes it narrow.
bool adds_bias(const ir::Graph& graph, const ir::Op& op) {
  return op.kind == OpKind::kAdd &&
         (graph.made_by(op.operands[0], OpKind::kAllReduce) != nullptr ||
          graph.made_by(op.operands[0], OpKind::kReduceScatter) != nullptr) &&
         graph.value(op.operands[1]).kind == ir::ValueKind::kParameter;
}

}  // namespace

std::vector<ir::Takes> operand_types(const ir::Graph& graph, const std::vector<std::string>& keep) {
  std::vector<Takes> ops;
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const ir::Op& op = graph.op(ir::OpId(i));
    ops.push_back(op.phase != ir::Phase::kForward ? Takes::kAny
                  : adds_bias(graph, op)          ? Takes::kCompute
                                                  : ir::takes(op.kind));
  }
  keep_products_before_choices(graph, ops);
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const ir::Op& op = graph.op(ir::OpId(i));
    const bool kept = std::any_of(keep.begin(), keep.end(),
                                  [&](const std::string& glob) { return glob_covers(glob, graph.scope(op.scope)); });
    if (kept && op.phase == ir::Phase::kForward) ops[i] = Takes::kF32;
  }
  return ops;
}

DType wider_type(DType a, DType b) {
  if (a == b) return a;
  return a == DType::kF64 || b == DType::kF64 ? DType::kF64 : DType::kF32;
}

}  // namespace piper::analysis
