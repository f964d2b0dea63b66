// After which steps a run saves a checkpoint: the same ones on every rank, also where the clock decides.
#pragma once

#include <chrono>
#include <cstdint>

#include "runtime/hal/control_channel.h"

namespace piper::exec {

struct CheckpointSchedule {
  int64_t every = 0;         // steps; 0: not by number
  double every_minutes = 0;  // 0: not by the clock
};

class CheckpointClock {
 public:
  // Begins to count now, before step `first`; the last step is saved in any case.
  CheckpointClock(const CheckpointSchedule& schedule, int64_t first, int64_t last);
  // After each step, on every rank. Where the clock decides it is rank 0's, and the ranks meet on `control` in steps
  // that they agreed on before: about twice as often as a checkpoint is due, and more often near it.
  Result<bool> due(int64_t step, hal::ControlChannel& control, const hal::WaitControl& wait);

 private:
  using Clock = std::chrono::steady_clock;
  CheckpointSchedule schedule_;
  int64_t last_, meets_at_, asked_at_;
  Clock::time_point saved_, asked_;
};

// Steps until rank 0's clock is asked again, at least 1: half of what is left of `left_s`, at the speed of `steps` in
// `seconds`.
int64_t steps_to_next_meeting(double left_s, int64_t steps, double seconds);

}  // namespace piper::exec
