// What a step trains with, once the model's parameters are final: the groups of the optimizer, what a token stream
// feeds to each input, and what the manifest says of the run. A pass of the pipeline.
#pragma once

#include "compiler/diag/diagnostics.h"
#include "compiler/driver/compilation.h"

namespace piper::driver {

// P0238: the strategy has no optimizer. P0254, and warnings, of group_parameters.
Status lay_out_training(Compilation& c, diag::Diagnostics& diags);

}  // namespace piper::driver
