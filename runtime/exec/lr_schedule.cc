#include "runtime/exec/lr_schedule.h"

#include "schemas/plan/lr_curves.h"

namespace piper::exec {

double lr_factor(const plan::LrSchedule& schedule, int64_t step) {
  if (step <= schedule.warmup) return static_cast<double>(step) / static_cast<double>(schedule.warmup);
  int64_t done = step - schedule.warmup;
  if (schedule.kind == "constant") return schedule.constant;
  if (const auto curve = plan::lr_curve_from_name(schedule.kind))
    return plan::lr_value({*curve, schedule.until - schedule.warmup, 1, schedule.to}, done);
  for (const plan::LrPhase& phase : schedule.phases) {
    if (phase.steps == 0 || done <= phase.steps || &phase == &schedule.phases.back())
      return plan::lr_value(phase, done);
    done -= phase.steps;
  }
  return 1;
}

}  // namespace piper::exec
