// Reads every directive of the strategy, once: what they say of regions becomes the module's distribution and schedule.
#pragma once

#include "compiler/diag/diagnostics.h"
#include "compiler/driver/compilation.h"

namespace piper::driver {

// The user's directives, then those that a schedule stands for, are resolved into one draft (directives/resolution.h),
// which becomes part of the module where no directive has an error. Errors: those of the directives, of
// expand_schedule.h, of directives::settle and of directives::split_backwards.
Status resolve_directives(Compilation& c, diag::Diagnostics& diags);

}  // namespace piper::driver
