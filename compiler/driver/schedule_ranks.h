// Which device group is which rank of a schedule: read from what the user's directives claim, from `schedule.ranks`, or
// one device a rank. Used by expand_schedule only; it makes no directives.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/diag/diagnostics.h"
#include "compiler/directives/resolution.h"
#include "compiler/strategy/families.h"
#include "compiler/strategy/strategy.h"

namespace piper::driver {

struct StagePlaces {
  // [stage][microbatch]: the claim of the stage's chunks, null where no directive of the user places them.
  std::vector<std::vector<const directives::Claim*>> claims;
  std::vector<bool> replicated;  // [stage]: a directive of the user replicates it
  std::vector<std::vector<int32_t>>
      groups;  // distinct device lists, by the first microbatch, then the first stage that they run
  int32_t num_stages() const { return static_cast<int32_t>(claims.size()); }
};
// `draft` outlives the result. Errors: P0203 no chunk has the schedule's tag, P0240 an index is missing, P0232
// chunks of one stage on different groups, or groups that overlap, P0219 some stages are placed and others not, while
// `ranks` is not given.
Result<StagePlaces> read_stage_places(const strategy::Schedule& schedule, const directives::Resolution& draft,
                                      diag::Diagnostics& diags);

// The devices of every row of the table. Errors: P0232 a placement that the table cannot have, P0217 `ranks` and a
// directive name different devices.
Result<std::vector<strategy::Devices>> assign_ranks(const strategy::Schedule& schedule,
                                                    const strategy::ScheduleTable& table, const StagePlaces& places,
                                                    diag::Diagnostics& diags);

// Ascending numbers as inclusive ranges.
std::vector<std::pair<int64_t, int64_t>> as_ranges(const std::vector<int32_t>& ascending);

}  // namespace piper::driver
