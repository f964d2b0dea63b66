// Which values groups of different sizes cannot exchange: those that are one for all samples of a piece, as statistics
// under `per_microbatch` are. Each piece has its own, and pieces of the two groups are not the same; a gradient of what
// is one for all samples would have to be added up on its way.
#pragma once

#include <vector>

#include "compiler/diag/diagnostics.h"
#include "compiler/directives/placement.h"
#include "compiler/driver/prepare_model.h"
#include "compiler/ir/dag.h"

namespace piper::driver {

// `variants`: one per distinct local batch of `batch` samples, all of one structure. Error P0511 at the device list of
// the reader.
Status check_exchanges(const directives::Placement& placement, const ir::Dag& dag,
                       const std::vector<ModelVariant>& variants, int64_t batch, diag::Diagnostics& diags);

}  // namespace piper::driver
