// Whether the weight decay is what the strategy seems to mean.
#pragma once

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/graph.h"
#include "compiler/strategy/strategy.h"

namespace piper::driver {

// After the parameters of an optimizer of matrices are marked. Errors and warnings: P0261 globs of `no_decay` that
// match no parameter. Warning: P0262 a norm whose weight decays while that of another does not.
Status check_decay(const strategy::OptimizerConfig& optimizer, const ir::Graph& graph, diag::Diagnostics& diags);

}  // namespace piper::driver
