// Rule 8 inside a program: what a run adds to an accumulator it adds once. Of the kernels nothing is known, so this is
// about calls that add the very same: as many as one kernel reads the parameter in the chunk's forward, since each use
// of a parameter adds to its gradient once.
#pragma once

#include <vector>

#include "schemas/base/status.h"
#include "schemas/plan/plan.h"

namespace piper::verify {

// P0636.
Status check_contributions(const std::vector<plan::Program>& programs);

}  // namespace piper::verify
