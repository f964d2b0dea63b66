// A run's own times as a timeline, beside the one that its plans would have (timeline.h): so that what assess.h and
// line_costs.h say of a predicted step they say of a measured one.
#pragma once

#include "schemas/timeline/timeline.h"

namespace piper::timeline {

// In microseconds, from the step's begin as read_profile() has it. A transfer begins when the last of its ends has
// come, and ends with the last of them. Needs the begin_us and end_us of `measured`; errors: those of verify::match.
Result<Timeline> measured_timeline(const plan::Bundle& bundle, const Measured& measured);

}  // namespace piper::timeline
