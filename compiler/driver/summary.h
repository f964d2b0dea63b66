// What piperc says of the bundle that it wrote, in one line. Used by compile.cc; describes plans, decides nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "schemas/base/status.h"
#include "schemas/plan/plan.h"
#include "schemas/timeline/machine.h"

namespace piper::driver {

// The predicted peak of the largest rank, as the manifest has it.
int64_t peak_bytes(const plan::Bundle& bundle);

// "plans/: 4 ranks, at most 3.3 MiB of memory (rank 0), idle 27 % of a step", with a line end. Idle is the mean over
// ranks of the time without a forward or a backward, where a forward costs 1, a backward 2 and messages nothing, as
// `piper-plan show` counts it. With a machine idle is of the step as `piper-plan simulate --target` prices it, and the
// line ends with ", 12.3 ms a step on NAME"; where that is too small, with what it has. Errors: those of verify::match.
Result<std::string> summary(const std::string& directory, const plan::Bundle& bundle,
                            const std::optional<timeline::Machine>& machine = {}, bool too_large = false);

}  // namespace piper::driver
