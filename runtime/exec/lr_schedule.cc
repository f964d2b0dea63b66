#include "runtime/exec/lr_schedule.h"

#include <algorithm>
#include <cmath>

namespace piper::exec {

double lr_factor(const plan::LrSchedule& schedule, int64_t step) {
  if (step <= schedule.warmup) return static_cast<double>(step) / static_cast<double>(schedule.warmup);
  if (schedule.kind == "constant") return schedule.constant;
  const int64_t length = schedule.until - schedule.warmup;
  const double progress =
      length <= 0 ? 1.0 : std::min(1.0, static_cast<double>(step - schedule.warmup) / static_cast<double>(length));
  if (schedule.kind == "cosine") return schedule.to + (1 - schedule.to) * (1 + std::cos(M_PI * progress)) / 2;
  return schedule.to + (1 - schedule.to) * (1 - progress);
}

}  // namespace piper::exec
