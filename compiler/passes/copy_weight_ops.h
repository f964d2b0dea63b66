// Copies operators that depend on parameters alone into the regions that read their results, where these run on groups
// of another size.
//
// Input level: regions, before losses are normalised. Output level: the same; each such region reads the parameters
// themselves, and these are used in several regions. It stands before track_batch, which must see every op. The
// gradient of such a value is a sum over samples: sent between groups of different sizes it would have to be added up
// or parted on its way, while gradients of a parameter that several regions use are added up after their reductions,
// whatever the sizes. Between groups of one size the value itself travels: nothing is computed twice. It copies nothing
// that depends on an input; a statistic of the batch between such groups is refused later (P0511).
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/module.h"

namespace piper::passes {

// `devices`: [region][microbatch], how many devices run it.
void copy_weight_ops(ir::Graph& graph, const std::vector<std::vector<int64_t>>& devices);

// On every variant, by the distribution.
Status copy_weight_ops(ir::Module& module, diag::Diagnostics& diags);
}  // namespace piper::passes
