#include "tools/piper_plan/play_bundle.h"

#include "schemas/plan/bundle_io.h"
#include "schemas/timeline/priced.h"
#include "tools/piper_plan/number_text.h"
#include "tools/piper_plan/target.h"

namespace piper::tools {
namespace {

// For a file, without its folders: pages are the same wherever they are made.
std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

Result<StepOfBundle> play_bundle(const std::string& directory, const StepTimes& times) {
  StepOfBundle played;
  PIPER_ASSIGN(played.bundle, plan::read_bundle(directory));
  played.microseconds = !times.profile.empty() || !times.target.empty();
  if (!times.profile.empty()) {
    PIPER_ASSIGN(played.measured, timeline::read_profile(played.bundle, times.profile));
    played.measured->link = times.link;
    played.times = "with the runs' times of " + name_of(times.profile) + ", measured below it";
    PIPER_ASSIGN(played.timeline, timeline::simulate_times(played.bundle, *played.measured));
  } else if (!times.target.empty()) {
    PIPER_ASSIGN(const TargetMachine target, read_target(times.target, times.kernel_times, played.bundle));
    played.times = "on " + target.machine.name + " (" + name_of(times.target) + ")" +
                   (times.kernel_times.empty() ? "" : ", kernel times of " + name_of(times.kernel_times));
    PIPER_ASSIGN(played.timeline, timeline::simulate_on(played.bundle, timeline::Priced(played.bundle, target.machine,
                                                                                        1, target.kernel_times)));
  } else {
    played.times = "a forward " + number_text(times.costs.forward) + ", a backward " +
                   number_text(times.costs.backward) + " units";
    PIPER_ASSIGN(played.timeline, timeline::simulate(played.bundle, times.costs));
  }
  return played;
}

}  // namespace piper::tools
