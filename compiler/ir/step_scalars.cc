#include "compiler/ir/step_scalars.h"

#include "compiler/ir/shapes.h"

namespace piper::ir {

std::vector<StepSum> step_sums(const Graph& graph) {
  if (graph.means.empty())
    return {
        {"loss", plan::StepNumber::kLoss, 0, "loss of the step", "the loss", DType::kF32, Heard::kByMessage, "loss",
         graph.all_losses()},
        {"dropped", plan::StepNumber::kDropped, 0, "number of dropped rows", "the number of dropped rows", DType::kI64,
         Heard::kByJoining, "dropped", graph.dropped},
    };
  // Summed over the devices of all terms, as the loss of a step is: over the same communicators.
  std::vector<StepSum> sums;
  for (size_t m = 0; m < graph.means.size(); ++m) {
    const std::string name = graph.means.size() == 1 ? "loss" : "loss " + std::to_string(m);
    const auto term = static_cast<int32_t>(m);
    sums.push_back({name, plan::StepNumber::kLoss, term, "a term of the loss", "the loss", DType::kF32,
                    Heard::kByMessage, "loss", graph.means[m].sums, graph.all_losses()});
    sums.push_back({name + " count", plan::StepNumber::kCount, term, "what a term of the loss counts", "the count",
                    DType::kF32, Heard::kByMessage, "loss", graph.means[m].counts, graph.all_losses()});
  }
  return sums;
}

int64_t StepScalar::elements() const { return ir::elements(shape, 0, shape.size()); }

}  // namespace piper::ir
