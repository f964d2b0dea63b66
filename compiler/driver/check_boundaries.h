// Checks what chunks hand to each other, once every variant of the model is lowered; a step of the pipeline
// (driver/pipeline.cc). It changes nothing.
//
// Values that groups of different numbers of replicas exchange must be per sample: a value that is one for all samples
// of a piece, as statistics under `per_microbatch` are, differs from piece to piece, and pieces of the two groups are
// not the same; a gradient of what is one for all samples would have to be added up on its way.
#pragma once

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/module.h"

namespace piper::driver {

// Errors: P0512 variants hand on different values, P0216 data cross between groups of which neither number of
// replicas divides the other, P0511 a value that is not per sample, at the device list of its reader.
Status check_boundaries(const ir::Module& module, diag::Diagnostics& diags);

}  // namespace piper::driver
