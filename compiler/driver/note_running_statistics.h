// Running statistics of a normalisation on several devices: each device follows its own samples, as replicas of
// PyTorch's DistributedDataParallel do without synchronised batch norm; the first device's are saved.
#pragma once

#include "compiler/diag/diagnostics.h"
#include "compiler/directives/placement.h"
#include "compiler/driver/prepare_model.h"
#include "compiler/ir/dag.h"

namespace piper::driver {

// Warning P0334 at the device list of the first such region, once.
void note_running_statistics(const directives::Placement& placement, const ir::Dag& dag, const ModelVariant& reference,
                             diag::Diagnostics& diags);

}  // namespace piper::driver
