// A bundle and how its step goes, for what draws steps.
#pragma once

#include <optional>
#include <string>

#include "schemas/base/status.h"
#include "schemas/plan/plan.h"
#include "schemas/timeline/timeline.h"

namespace piper::tools {

struct StepOfBundle {
  plan::Bundle bundle;
  std::optional<timeline::Measured> measured;  // where a profile was given: the timeline is in microseconds
  timeline::Timeline timeline;
};
// `profile`: of piper-run, or "" for unit costs; `link` is that of a timeline with measured times.
Result<StepOfBundle> play_bundle(const std::string& directory, const timeline::Costs& costs, const std::string& profile,
                                 const timeline::Link& link);

}  // namespace piper::tools
