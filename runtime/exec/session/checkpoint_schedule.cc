#include "runtime/exec/session/checkpoint_schedule.h"

#include <algorithm>
#include <sstream>

namespace piper::exec {

namespace {

constexpr double kMostSteps = 1e6;

double seconds_between(std::chrono::steady_clock::time_point begin, std::chrono::steady_clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

}  // namespace

int64_t steps_to_next_meeting(double left_s, int64_t steps, double seconds) {
  if (seconds <= 0) return 1;
  const double half = left_s / 2 * static_cast<double>(steps) / seconds;
  return static_cast<int64_t>(std::clamp(half, 1.0, kMostSteps));
}

CheckpointClock::CheckpointClock(const CheckpointSchedule& schedule, int64_t first, int64_t last)
    : schedule_(schedule), last_(last), meets_at_(first), asked_at_(first - 1), saved_(Clock::now()), asked_(saved_) {}

Result<bool> CheckpointClock::due(int64_t step, hal::ControlChannel& control, const hal::WaitControl& wait) {
  bool save = step == last_ || (schedule_.every > 0 && step % schedule_.every == 0);
  if (schedule_.every_minutes <= 0 || step != meets_at_) return save;
  const auto now = Clock::now();
  const double interval = schedule_.every_minutes * 60;
  const bool late = seconds_between(saved_, now) >= interval;
  const double left = late || save ? interval : interval - seconds_between(saved_, now);
  const int64_t next = step + steps_to_next_meeting(left, step - asked_at_, seconds_between(asked_, now));
  const std::string mine =
      control.rank() == 0 ? std::to_string(late ? 1 : 0) + " " + std::to_string(next) : std::string();
  PIPER_ASSIGN(const std::vector<std::string> all, control.allgather(mine, wait));
  std::istringstream decided(all.front());
  int by_clock = 0;
  decided >> by_clock >> meets_at_;
  asked_at_ = step;
  asked_ = now;
  save = save || by_clock != 0;
  if (save) saved_ = now;
  return save;
}

}  // namespace piper::exec
