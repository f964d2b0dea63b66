#include "tools/piper_plan/play_bundle.h"

#include "schemas/plan/bundle_io.h"

namespace piper::tools {

Result<StepOfBundle> play_bundle(const std::string& directory, const timeline::Costs& costs, const std::string& profile,
                                 const timeline::Link& link) {
  StepOfBundle played;
  PIPER_ASSIGN(played.bundle, plan::read_bundle(directory));
  if (profile.empty()) {
    PIPER_ASSIGN(played.timeline, timeline::simulate(played.bundle, costs));
    return played;
  }
  PIPER_ASSIGN(played.measured, timeline::read_profile(played.bundle, profile));
  played.measured->link = link;
  PIPER_ASSIGN(played.timeline, timeline::simulate_times(played.bundle, *played.measured));
  return played;
}

}  // namespace piper::tools
