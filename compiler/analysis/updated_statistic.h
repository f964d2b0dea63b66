// Running statistics, which forward passes update.
#pragma once

#include "compiler/ir/graph.h"

namespace piper::analysis {

// The buffer with the running statistics that an operator updates; invalid: it updates none.
ir::ValueId updated_statistic(const ir::Graph& graph, const ir::Op& op);

}  // namespace piper::analysis
