// The buffers that are live at a rank's peak of memory, the ones that a user has to make smaller: P0520 lists them.
// Reads placed plans and changes nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "schemas/plan/plan.h"

namespace piper::driver {

struct LiveAtPeak {
  size_t instruction = 0;        // where the most bytes are live, the first such
  int64_t bytes = 0;             // of all live buffers there
  std::vector<int32_t> buffers;  // indices into RankPlan::buffers, the largest first
};
// A buffer of the arena is live from its first access in issue order to its last. Linear in accesses.
LiveAtPeak live_at_peak(const plan::Bundle& bundle, const plan::RankPlan& plan);

}  // namespace piper::driver
