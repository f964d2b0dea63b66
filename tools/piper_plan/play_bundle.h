// A bundle and how its step goes, for what draws steps.
#pragma once

#include <optional>
#include <string>

#include "schemas/base/status.h"
#include "schemas/plan/plan.h"
#include "schemas/timeline/timeline.h"

namespace piper::tools {

// What the times of a step are: those of a profile, else a machine's, else costs.
struct StepTimes {
  timeline::Costs costs = {};
  std::string profile = {};       // a file of `piper-run --profile` of this bundle, or ""
  timeline::Link link = {};       // beside the times of a profile
  std::string target = {};        // the file of a machine, as in strategies/targets/, or ""
  std::string kernel_times = {};  // of that machine: a file of `piper-run --calibrate`, or ""
};
struct StepOfBundle {
  plan::Bundle bundle;
  std::optional<timeline::Measured> measured;  // where a profile was given
  timeline::Timeline timeline;
  bool microseconds = false;  // else units of a cost
  std::string times;          // what they are, for people: "a forward 1 unit, a backward 2", "measured in s.profile"
};
// Reading a machine prints its diagnostics to standard error.
Result<StepOfBundle> play_bundle(const std::string& directory, const StepTimes& times);

}  // namespace piper::tools
