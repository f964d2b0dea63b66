// List scheduling of the passes of a step (Graham 1969: whoever is free takes the most urgent pass that is ready): a
// proposal for the search of tune.h, which prices it by its plans. It sees means of times and no links, so it never
// decides.
//
// Passes stay on their rank, and those of one stage and kind keep their sequence on it, so that gradients are added up
// in the order of the given table and no bit changes. A forward waits for that of the stage before, a backward for its
// forward and the backward of the stage after it, a weight half for its input half.
#pragma once

#include "compiler/strategy/families.h"
#include "compiler/tune/pass_times.h"

namespace piper::tune {

struct ListScheduleOptions {
  enum class Urgent : uint8_t {
    kBackward,     // backwards before forwards before weight halves: the least memory
    kLongestPath,  // whatever the longest chain of passes after it hangs on
  } urgent = Urgent::kBackward;
  enum class Overlap : uint8_t {
    kNone,
    kOpposite,  // a forward and a backward that are ready about together share a slot
    kAny,       // any two passes do
  } overlap = Overlap::kNone;
  enum class Backward : uint8_t { kAsGiven, kHalves } backward = Backward::kAsGiven;
  // Added to the number of forwards whose backward is open that each row has at most in the given table.
  int32_t more_in_flight = 0;
};

// A table with the same passes (except halves) in the same rows. It always ends: where the bound on forwards in flight
// leaves nothing to run, the earliest forward runs.
strategy::ScheduleTable list_schedule(const strategy::ScheduleTable& given, const PassTimes& times,
                                      const ListScheduleOptions& options);

// The most forwards of a row whose backward, both halves of it, is open.
std::vector<int32_t> most_in_flight(const strategy::ScheduleTable& table);

}  // namespace piper::tune
