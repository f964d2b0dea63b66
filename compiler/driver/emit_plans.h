// The last pass of the pipeline: an ordered module becomes a bundle of plans.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/diag/diagnostics.h"
#include "compiler/driver/compilation.h"

namespace piper::driver {

// Fills Compilation::emitted. Errors: P0510, P0511 (emit/emit_bundle.h).
Status emit_plans(Compilation& c, diag::Diagnostics& diags);

// The texts of all ranks, one after the other; after them those of the evaluation.
std::string print_plans(const plan::Bundle& bundle);

// Adds to the predicted peaks of CPU ranks the copy of its state that a rank keeps where a run saves checkpoints.
void count_snapshots(plan::Bundle& bundle);

// Error P0520: a rank needs more than `limit` bytes.
Status check_memory(const plan::Bundle& bundle, int64_t limit, diag::Diagnostics& diags);

}  // namespace piper::driver
