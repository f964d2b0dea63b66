// One moment that all ranks can count from, on whatever machine and by its own clock: traces and profiles put the times
// of all ranks beside each other.
#pragma once

#include <chrono>

#include "runtime/hal/control_channel.h"

namespace piper::exec {

// When the first rank of this rank's machine had met the others. All ranks call it; those of two machines are off by
// what a message takes. R0302 where a rank does not come.
Result<std::chrono::steady_clock::time_point> meeting(hal::ControlChannel& control, const hal::WaitControl& wait);

}  // namespace piper::exec
