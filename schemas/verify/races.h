// Rules 5 and 6: accesses of one rank to its memory, in issue order, against what was there before; of ranks that do
// the same work once for all of them.
#pragma once

#include <cstdint>
#include <span>

#include "schemas/base/status.h"
#include "schemas/plan/plan.h"

namespace piper::verify {

// `alike`: plans that do the same work (plan/like_ranks.h), at least one. Who their peers are is nothing to races.
// Where they name parts of their own, each of these counts as the whole buffer that it is a part of: what is ordered
// then is ordered whatever the parts are. Only where that is not so are they looked at one by one. Adds the accesses of
// one of them to `num_accesses`.
Status check_races(const plan::Bundle& bundle, std::span<const plan::RankPlan* const> alike, int64_t& num_accesses);

}  // namespace piper::verify
