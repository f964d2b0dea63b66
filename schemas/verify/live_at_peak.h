// What lives in a rank's arena, and when: the most bytes that are alive at one time, which no placement can go below.
// P0520, `piper-plan show` and `explain` report it.
// Reads placed plans and changes nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "schemas/plan/life.h"
#include "schemas/plan/plan.h"

namespace piper::verify {

struct LiveAtPeak {
  size_t instruction = 0;        // where the most bytes are live, the first such
  int64_t bytes = 0;             // of all live buffers there, without alignment
  std::vector<int32_t> buffers;  // indices into RankPlan::buffers, the largest first
};
// A buffer of the arena is live from its first access in issue order to its last. Linear in accesses.
LiveAtPeak live_at_peak(const plan::Bundle& bundle, const plan::RankPlan& plan);

}  // namespace piper::verify
