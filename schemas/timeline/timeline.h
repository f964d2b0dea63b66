// Plays a bundle: when each run begins and ends with unit costs, or with the times that a run of it
// measured and links of a stated speed. Used by piperc for what it says of a bundle, by `piper-plan show` for
// its picture and by `piper-plan simulate`. Needs a bundle that verify() accepts. Every stream has a processor of its
// own, so a step is the plan's critical path: no run on fewer processors is shorter at these costs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schemas/base/status.h"
#include "schemas/plan/plan.h"

namespace piper::timeline {

// Time of one pass of a stage (stages.h); a backward in two halves costs half of it each. The pieces of a stage share
// its time evenly. Other runs cost 0.
struct Costs {
  double forward = 1, backward = 2;
};

// What a message takes beside the work of its ends; as `piper-run --link-delay`: every message has the full rate.
struct Link {
  double latency_us = 0, bytes_per_second = 0;  // 0 bytes/s: any size takes the latency alone
};

// Microseconds of each instruction, [loaded rank][instruction], and the links between ranks.
struct Measured {
  std::vector<std::vector<double>> cost_us;
  Link link;
};
// Reads what `piper-run --profile` wrote of this bundle: the time that an instruction's thread computed. An error tells
// the line that does not fit, or that a rank is missing.
Result<Measured> read_profile(const plan::Bundle& bundle, const std::string& path);

struct Span {
  int32_t instruction = -1;
  double begin = 0, end = 0;
};
struct Timeline {
  std::vector<std::vector<Span>> spans;  // per loaded rank: its chunk runs, in issue order
  double step = 0;                       // end of the last instruction
};
// The part of the step in which a loaded rank runs nothing, 0 to 1; runs on two streams at once count as busy twice.
double idle_share(const Timeline& timeline, size_t plan);

Result<Timeline> simulate(const plan::Bundle& bundle, const Costs& costs);
// In microseconds. Spans are all runs and updates.
Result<Timeline> simulate_times(const plan::Bundle& bundle, const Measured& measured);

}  // namespace piper::timeline
