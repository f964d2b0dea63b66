// Channels of the plan's communicators on a transport.
#pragma once

#include <vector>

#include "runtime/hal/control_channel.h"
#include "schemas/plan/plan.h"

namespace piper::hal {

// By communicator: the first of two channels of its own. The ranks number their communicators by themselves: a group's
// channels come from its place in the sorted list of all groups of the run, which is the same everywhere. Collective.
Result<std::vector<int32_t>> agree_on_group_channels(const std::vector<plan::Communicator>& communicators,
                                                     ControlChannel& control, const WaitControl& wait);
// The position of a rank in a communicator. R0404: it is none of it.
Result<int64_t> position_in(const plan::Communicator& communicator, int32_t rank);
// R0404: a channel's id is none of a plan.
Status check_channel(const plan::Channel& channel);

}  // namespace piper::hal
