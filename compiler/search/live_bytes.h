// What a rank of a plan with one microbatch has in its arena at a time: the sum of the buffers that are in use then.
// The arena of any plan that has these buffers in use at once has as many bytes.
#pragma once

#include <cstdint>

#include "schemas/plan/plan.h"

namespace piper::search {

// The most at a time between the first and the last run of a chunk.
int64_t most_live_in_passes(const plan::Bundle& bundle, const plan::RankPlan& plan);
// What the second halves of backwards read and the first halves, or forwards, have made. 0 where backwards are whole.
int64_t bytes_between_halves(const plan::Bundle& bundle, const plan::RankPlan& plan);

}  // namespace piper::search
