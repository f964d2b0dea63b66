// The steps of a loaded rank, one after the other: submits the recording and waits for it. A failure is raised in the
// shared Stop with rank, step, instruction and provenance; it wakes every other queue and rank of the process.
#pragma once

#include "runtime/exec/call_by_call.h"
#include "runtime/exec/load_rank.h"
#include "runtime/trace/profile.h"

namespace piper::exec {

class Executor : private hal::StepObserver {
 public:
  // `rank` and `stop` outlive it. `noun`: what messages call a step.
  Executor(LoadedRank& rank, hal::Stop& stop, std::chrono::milliseconds timeout, const char* noun = "step")
      : rank_(rank), stop_(stop), wait_{&stop, timeout}, noun_(noun) {}
  // hal::stopped() when the step did not finish: the reason is in the Stop, and no step can follow.
  Status run_step(int64_t step);
  // The same, one piece of the rank's step after the other. A failure of the observer's is one of the step.
  Status run_step(int64_t step, const CallByCall& calls, PieceObserver& observer);
  // From now on every instruction is timed; nullptr: no more. Not during a step.
  void set_profile(trace::Profile* profile) { profile_ = profile; }
  // Library scratch of the threads of all queues so far, bytes.
  int64_t scratch_high_water();

 private:
  void failed(int32_t queue, int32_t instruction, Status failure, const std::vector<int32_t>& positions) override;
  void ran(int32_t instruction, Clock::time_point begin, Clock::time_point end, int64_t cpu_ns) override;
  Status run_pieces(const CallByCall& calls, PieceObserver& observer);
  // Behind what has ended with a failure.
  void end_rank();
  // What kernels of the last step found wrong in their data.
  Status look_for_faults();
  Status watch() override { return rank_.backend->collectives->check(); }

  LoadedRank& rank_;
  hal::Stop& stop_;
  hal::WaitControl wait_;
  const char* noun_;
  trace::Profile* profile_ = nullptr;
  int64_t step_ = 0;  // 0: none was done yet
};

}  // namespace piper::exec
