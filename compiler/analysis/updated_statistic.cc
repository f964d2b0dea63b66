#include "compiler/analysis/updated_statistic.h"

namespace piper::analysis {

ir::ValueId updated_statistic(const ir::Graph& graph, const ir::Op& op) {
  if (op.kind != ir::OpKind::kBatchNorm || op.phase != ir::Phase::kForward || op.operands.size() < 4) return {};
  const ir::ValueId mean = op.operands[3];
  return mean.valid() && graph.value(mean).kind == ir::ValueKind::kBuffer ? mean : ir::ValueId();
}

}  // namespace piper::analysis
