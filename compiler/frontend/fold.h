// Constant folding over a bound graph: evaluates every op whose operands are all constants (int64,
// bool, float32), removes what nothing reads, and recognises a boolean mask equal to the lower
// triangle in attention (-> is_causal) or all true (-> no mask). The evaluator is shared by both
// import routes, which fold shape plumbing while they build.
#pragma once

#include <optional>
#include <vector>

#include "compiler/ir/graph.h"

namespace piper::frontend {

struct ConstantTensor {
  ir::TensorType type;
  ir::ConstantData data;
};
// The results of an op on constants; nullopt where the evaluator does not know the op or dtype.
std::optional<std::vector<ConstantTensor>> evaluate(ir::OpKind kind, const ir::Attrs& attrs,
                                                    const std::vector<ConstantTensor>& operands);
// The bytes of a constant value of the graph where they are in memory (a WeightSource with `data`).
std::optional<ConstantTensor> constant_of(const ir::Graph& graph, ir::ValueId value);

// Folds, recognises masks, removes dead ops (nothing that leads to an output, an effect or a kept
// value). Keeps op order. Values keep their names.
ir::Graph fold(const ir::Graph& graph);

}  // namespace piper::frontend
