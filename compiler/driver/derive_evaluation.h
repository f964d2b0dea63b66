// The pass that makes the program by which a run evaluates, where the strategy has `eval`: a module of forwards, from
// the ordered one of the training step.
#pragma once

#include "compiler/diag/diagnostics.h"
#include "compiler/driver/compilation.h"

namespace piper::driver {

// Sets Compilation::evaluation. Error P0335 (evaluation/take_means.h).
Status derive_evaluation(Compilation& c, diag::Diagnostics& diags);

}  // namespace piper::driver
