#include "tools/piper_plan/play_bundle.h"

#include "schemas/plan/bundle_io.h"
#include "schemas/timeline/priced.h"
#include "tools/piper_plan/target.h"

namespace piper::tools {

Result<StepOfBundle> play_bundle(const std::string& directory, const StepTimes& times) {
  StepOfBundle played;
  PIPER_ASSIGN(played.bundle, plan::read_bundle(directory));
  played.microseconds = !times.profile.empty() || !times.target.empty();
  if (!times.profile.empty()) {
    PIPER_ASSIGN(played.measured, timeline::read_profile(played.bundle, times.profile));
    played.measured->link = times.link;
    PIPER_ASSIGN(played.timeline, timeline::simulate_times(played.bundle, *played.measured));
  } else if (!times.target.empty()) {
    PIPER_ASSIGN(const TargetMachine target, read_target(times.target, times.kernel_times, played.bundle));
    PIPER_ASSIGN(played.timeline, timeline::simulate_on(played.bundle, timeline::Priced(played.bundle, target.machine,
                                                                                        1, target.kernel_times)));
  } else {
    PIPER_ASSIGN(played.timeline, timeline::simulate(played.bundle, times.costs));
  }
  return played;
}

}  // namespace piper::tools
