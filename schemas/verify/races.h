// Rules 5 and 6: accesses of one rank to its memory, in issue order, against what was there before.
#pragma once

#include <cstdint>

#include "schemas/base/status.h"
#include "schemas/plan/plan.h"

namespace piper::verify {

// Adds the accesses looked at to `num_accesses`.
Status check_races(const plan::Bundle& bundle, const plan::RankPlan& plan, int64_t& num_accesses);

}  // namespace piper::verify
