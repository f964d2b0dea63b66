#include "compiler/ir/step_scalars.h"

#include "compiler/ir/shapes.h"

namespace piper::ir {

std::vector<StepSum> step_sums(const Graph& graph) {
  return {
      {"loss", "loss of the step", "the loss", DType::kF32, Heard::kByMessage, graph.all_losses()},
      {"dropped", "number of dropped rows", "the number of dropped rows", DType::kI64, Heard::kByJoining,
       graph.dropped},
  };
}

int64_t StepScalar::elements() const { return ir::elements(shape, 0, shape.size()); }

}  // namespace piper::ir
