// The model as graphs: what a step is, the model bound to one number of samples a piece, cut into the regions that the
// strategy's filters are about, and bound again where groups of other sizes have pieces of another size.
#pragma once

#include "compiler/diag/diagnostics.h"
#include "compiler/driver/compilation.h"

namespace piper::driver {

// Sets Module::step and training. Errors: P0228 no batch, P0224 several splits, P0206 a family without microbatches.
Status choose_step(Compilation& c, diag::Diagnostics& diags);

// The first variant: that of the largest group which the strategy names. Errors: P0223 the batch does not divide, P0237
// no loss, and those of the frontend.
Status bind_model(Compilation& c, diag::Diagnostics& diags);

// Cuts the first variant into the regions that filters name (regions/cut_chunks.h).
Status cut_regions(Compilation& c, diag::Diagnostics& diags);

// Binds and cuts a variant for each other number of samples that some group has a piece, once it is known which group
// runs what; the first variant goes where no group runs it. Error P0512: the model has other regions for another number
// of samples.
Status bind_variants(Compilation& c, diag::Diagnostics& diags);

}  // namespace piper::driver
