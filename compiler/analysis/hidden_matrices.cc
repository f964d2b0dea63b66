#include "compiler/analysis/hidden_matrices.h"

#include <optional>

namespace piper::analysis {
namespace {

using ir::OpKind;
using ir::ValueId;

std::vector<int64_t> without_ones(std::vector<int64_t> shape) {
  std::erase(shape, 1);
  return shape;
}

class Matrices {
 public:
  explicit Matrices(const ir::Graph& graph) : graph_(graph) {}

  std::vector<bool> find() const {
    std::vector<bool> multiplied(graph_.parameters().size(), false), other = multiplied;
    const std::vector<bool> makes_scores = products_of_scores();
    for (size_t i = 0; i < graph_.num_ops(); ++i) {
      const ir::Op& op = graph_.op(ir::OpId(i));
      for (ValueId operand : multiplied_by(op))
        if (const auto p = parameter_of(operand)) (makes_scores[i] ? other : multiplied)[*p] = true;
      if (op.kind == OpKind::kEmbedding || op.kind == OpKind::kIndexSelect || op.kind == OpKind::kGather)
        if (const auto p = parameter_of(op.operands[0])) other[*p] = true;
    }
    for (size_t p = 0; p < multiplied.size(); ++p) {
      const ir::Parameter& parameter = graph_.parameters()[p];
      multiplied[p] =
          multiplied[p] && !other[p] && parameter.trainable && graph_.type(parameter.value).shape.size() == 2;
    }
    return multiplied;
  }

 private:
  // Operands that may be weights.
  static std::vector<ValueId> multiplied_by(const ir::Op& op) {
    if (op.kind == OpKind::kLinear) return {op.operands[1]};
    if (op.kind == OpKind::kMatmul) return {op.operands[0], op.operands[1]};
    return {};
  }

  // The parameter that the value is, except for its type, the order of its axes, and axes of one element.
  std::optional<uint32_t> parameter_of(ValueId value) const {
    while (graph_.value(value).kind == ir::ValueKind::kOpResult) {
      const ir::Op& op = graph_.op(graph_.value(value).producer);
      const bool reshapes = op.kind == OpKind::kReshape || op.kind == OpKind::kExpand;
      if (!reshapes && op.kind != OpKind::kPermute && op.kind != OpKind::kCast && op.kind != OpKind::kCopy) return {};
      if (reshapes && without_ones(graph_.type(value).shape) != without_ones(graph_.type(op.operands[0]).shape))
        return {};
      value = op.operands[0];
    }
    if (graph_.value(value).kind != ir::ValueKind::kParameter) return {};
    return graph_.value(value).payload;
  }

  // [op] whether it is a product from which scores are made without another one in between.
  std::vector<bool> products_of_scores() const {
    std::vector<bool> found(graph_.num_ops(), false), scores(graph_.num_values(), false);
    for (size_t i = graph_.num_ops(); i-- > 0;) {
      const ir::Op& op = graph_.op(ir::OpId(i));
      switch (op.kind) {
        case OpKind::kCrossEntropyLoss:
        case OpKind::kCrossEntropySum:
        case OpKind::kNllLoss:
        case OpKind::kNllSum: scores[op.operands[0].index] = true; continue;
        default: break;
      }
      bool makes = false;
      for (ValueId result : op.results) makes = makes || scores[result.index];
      if (!makes) continue;
      if (!multiplied_by(op).empty()) {
        found[i] = true;
        continue;
      }
      for (ValueId operand : op.operands)
        if (operand.valid()) scores[operand.index] = true;
    }
    return found;
  }

  const ir::Graph& graph_;
};

}  // namespace

std::vector<bool> hidden_matrices(const ir::Graph& graph) { return Matrices(graph).find(); }

}  // namespace piper::analysis
