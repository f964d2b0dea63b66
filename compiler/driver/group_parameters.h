// The groups of an optimizer: parameters that one update treats alike. Used by lay_out_training.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/graph.h"
#include "compiler/strategy/strategy.h"
#include "schemas/plan/plan.h"

namespace piper::driver {

struct GroupedParameters {
  plan::Optimizer optimizer;          // with its groups
  std::vector<int32_t> of_parameter;  // [parameter] index into optimizer.groups
};
// For each optimizer: what the first of the strategy's `groups` that matches it has, in their order, after what none
// has. Within each, what `no_decay` matches is a group of its own, except where a group of the strategy says a decay
// itself. P0254: of a group's globs none, or as a warning one, matches a
// parameter that no earlier group has.
Result<GroupedParameters> group_parameters(const strategy::OptimizerConfig& optimizer, const ir::Graph& graph,
                                           diag::Diagnostics& diags);

}  // namespace piper::driver
