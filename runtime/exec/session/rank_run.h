// One rank of a run from its start to its end: agree with the others, load, step, save. Made by run_rank() in
// session.cc, once a rank.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runtime/checkpoint/finite_state.h"
#include "runtime/exec/checks/nan_replay.h"
#include "runtime/exec/executor.h"
#include "runtime/exec/ring_waits.h"
#include "runtime/exec/session/reporter.h"
#include "runtime/exec/session/session.h"
#include "runtime/exec/session/status_report.h"
#include "runtime/exec/session/step_hook.h"
#include "runtime/exec/step_inputs.h"

namespace piper::exec {

class RankRun : private RunReports {
 public:
  // All of them outlive this. `checkpoint_control`: nullptr where no checkpoints are saved.
  RankRun(Session& session, const plan::RankPlan& plan, hal::ControlChannel& control,
          hal::ControlChannel* checkpoint_control);
  Status run(const MakeBackend& make_backend);
  // The step of the newest checkpoint that this run has committed, 0: none.
  int64_t committed() { return checkpointer_ == nullptr ? 0 : checkpointer_->committed_step(); }

 private:
  // With the other ranks: all run the same bundle with the same options.
  Status meet();
  Status load(const MakeBackend& make_backend);
  // After the checkpoint's steps and samples.
  Status go_on(StepInputs& inputs);
  Status open_checkpointer();
  Status open_reports();
  // Makes the hooks that the options ask for.
  Status watch(Executor& executor);
  // In their place: the checkpoint of another plan becomes one in this plan's parts, and what goes beyond those that
  // are kept is removed.
  Status without_steps();
  // With what they ended: before the last one where a signal asked for it.
  Result<StopAction> all_steps(Executor& executor, StepInputs& inputs);
  Status after(int64_t step);
  // Whether a number that is none ends the run.
  bool stops_on_nan() const { return session_.stopping != nullptr && session_.options.stop_on_nan; }
  // What the thread that saves has found in the state.
  void look_at_saved_state();
  // After the last of the steps that all ranks do: whether one of them was lost, and what lost it. `complete`: it is
  // the last step of the run.
  Status look_for_nan(Executor& executor, bool complete);
  Status end_with_verdict();
  void host(live::EventKind kind, int64_t step);
  Result<StopAction> agreed_after(int64_t step);
  Status save_checkpoint(CheckpointClock& clock, int64_t step, StopAction action);
  Status run_step(Executor& executor, int64_t step);
  Status one_step(Executor& executor, StepInputs& inputs, int64_t step);
  // A loss that is no number ends the run after a step that all ranks agree on, so that they can look for what made
  // it. Steps until then are not reported.
  Status report(int64_t step, double seconds, const StepInputs& inputs);
  // Where the host's memory is the device's.
  int64_t read_ahead_bytes() const;
  void entered(live::EventKind kind, live::RankState state, int64_t step) override;
  void evaluated(int64_t step, double loss) override;
  // After the steps, which ended with `action`. stopped() where a signal left no time to save.
  Status end(Executor& executor, StopAction action);
  Status finish(Executor& executor);

  Session& session_;
  const plan::RankPlan& plan_;
  hal::ControlChannel& control_;
  hal::ControlChannel* checkpoint_control_;
  hal::WaitControl wait_;
  StatusReport status_;
  checkpoint::FiniteState finite_;
  int64_t first_step_ = 1;
  // Steps of this batch by which the samples seen are ahead of the steps done, and by which the data are.
  int64_t samples_shift_ = 0, data_shift_ = 0;
  trace::RingWriter* ring_ = nullptr;
  std::optional<RingWaits> messages_;  // of the host, which is the thread of this
  std::unique_ptr<LoadedRank> rank_;
  std::unique_ptr<checkpoint::Checkpointer> checkpointer_;  // nullptr: none are saved
  std::unique_ptr<Reporter> reporter_;
  NanFound nan_;    // step 0: none is known here
  Status verdict_;  // why all ranks end alike
  std::vector<std::unique_ptr<StepHook>> hooks_;
};

}  // namespace piper::exec
