// `--profile FILE`: when each instruction of all ranks began and ended, as means over the steps
// (runtime/trace/profile.h).
#pragma once

#include "runtime/exec/executor.h"
#include "runtime/exec/session/session.h"
#include "runtime/exec/session/step_hook.h"
#include "runtime/hal/control_channel.h"
#include "runtime/trace/profile.h"

namespace piper::exec {

class ProfileRecorder : public StepHook {
 public:
  // All outlive this but `executor`, which runs the last step before finish().
  ProfileRecorder(const Session& session, const plan::RankPlan& plan, hal::ControlChannel& control,
                  const hal::WaitControl& wait, Executor& executor);
  Status finish() override;  // collective; R0601

 private:
  const Session& session_;
  const plan::RankPlan& plan_;
  hal::ControlChannel& control_;
  hal::WaitControl wait_;
  trace::Profile profile_;
};

}  // namespace piper::exec
