// Ranks that have become slow: how long each computes in a step, by its ring, against the best that it did, and against
// what has become of the others meanwhile. Stages of a pipeline compute differently long by design, and a busy machine
// slows all of its ranks; neither is a straggler. Used by piper-launch.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "schemas/live/ring.h"

namespace piper::live {

// For the whole steps that a ring has, the newest 64: medians.
struct Pace {
  int32_t rank = 0;
  int64_t steps = 0;    // that there are; 0: none, and no medians
  int64_t busy_ns = 0;  // in which its streams computed, all together
  int64_t step_ns = 0;  // from its submission to its end
};
Pace pace_of(const Ring& ring);

// One for a run: it knows what it has seen before.
class Stragglers {
 public:
  // A line for every rank that has become slow: at this call and the one before, and not at the one before that. With
  // less than two ranks there is nothing to compare.
  std::vector<std::string> compare(const std::vector<Ring>& rings);

  // Slow: its own time as a multiple of its best is more than so many times that of the rank in the middle.
  static constexpr double kSlow = 1.5;
  static constexpr int64_t kSteps = 16;  // that a ring must have to be looked at

 private:
  struct Known {
    int64_t best_ns = 0;
    int looks = 0;  // one after the other at which it was slow
  };
  std::map<int32_t, Known> known_;  // by rank
};

}  // namespace piper::live
