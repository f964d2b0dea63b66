// `--trace FILE`: some steps of all ranks as one trace (runtime/trace/step_trace.h). Ranks of one machine have one
// clock; those of others begin to count when all ranks meet, so between machines times are as exact as that meeting.
#pragma once

#include <memory>
#include <string>

#include "runtime/exec/session/session.h"
#include "runtime/exec/session/step_hook.h"
#include "runtime/trace/step_trace.h"

namespace piper::exec {

class TraceRecorder : public StepHook {
 public:
  // Collective. `plan` and `control` outlive it. R0601 where the reporting rank cannot write the file.
  static Result<std::unique_ptr<TraceRecorder>> make(const Session& session, const plan::RankPlan& plan,
                                                     hal::ControlChannel& control, const hal::WaitControl& wait);
  trace::StepTrace& steps() { return steps_; }
  void host(live::EventKind kind, int64_t step) override { steps_.host(kind, step); }
  // Collective: the reporting rank writes one rank after the other. R0601.
  Status finish() override;

 private:
  TraceRecorder(const Session& session, const plan::RankPlan& plan, hal::ControlChannel& control,
                const hal::WaitControl& wait);
  bool reports() const;

  const Session& session_;
  const plan::RankPlan& plan_;
  hal::ControlChannel& control_;
  hal::WaitControl wait_;
  trace::StepTrace steps_;
  trace::StepTrace::Clock::time_point zero_;
};

}  // namespace piper::exec
