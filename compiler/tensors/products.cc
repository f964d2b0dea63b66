#include "compiler/tensors/products.h"

namespace piper::tensors {

using ir::OpKind;

std::optional<WeightAxes> weight_axes(const ir::Graph& graph, const ir::Op& op) {
  switch (op.kind) {
    case OpKind::kLinear: return WeightAxes{0, 1};  // [out, in]
    case OpKind::kGroupedMatmul:                    // [experts, in, out], or transposed
      return std::get<ir::GroupedMatmulAttrs>(op.attrs).transposed ? WeightAxes{1, 2} : WeightAxes{2, 1};
    case OpKind::kMatmul: {  // [.., in, out]
      const auto rank = static_cast<int32_t>(graph.type(op.operands[1]).shape.size());
      return WeightAxes{rank - 1, rank - 2};
    }
    default: return std::nullopt;
  }
}

int64_t features_of(const ir::Graph& graph, const ir::Op& product) {
  const auto axis = static_cast<size_t>(weight_axes(graph, product)->out);
  return graph.type(product.operands[1]).shape[axis];
}

ir::ValueId bias_of(const ir::Op& product) {
  return product.kind == OpKind::kLinear && product.operands.size() > 2 ? product.operands[2] : ir::ValueId();
}

}  // namespace piper::tensors
