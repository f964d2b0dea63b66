// What lives in a rank's arena, and when: the most bytes that are alive at one time, which no placement can go below,
// and what keeping the bytes of messages costs (plan/held_messages.h). P0520, `piper-plan show` and `explain` tell it.
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

// What ends in a message lives on until no run would wait for it, or so many runs later.
struct Patience {
  int runs = 0;       // the most of 4, 2, 1 and 0 that the placement keeps to
  int64_t bytes = 0;  // live at one time then
};
Patience patience_of(const plan::Bundle& bundle, const plan::RankPlan& plan);

}  // namespace piper::verify
