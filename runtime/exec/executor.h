// The steps of a loaded rank, one after the other: submits the recording and waits for it. A failure is raised in the
// shared Stop with rank, step, instruction and provenance; it wakes every other queue and rank of the process.
#pragma once

#include "runtime/exec/checks/call_by_call.h"
#include "runtime/exec/load_rank.h"
#include "runtime/exec/ring_waits.h"
#include "runtime/trace/profile.h"
#include "runtime/trace/ring_writer.h"
#include "runtime/trace/step_trace.h"

namespace piper::exec {

class Executor : private hal::StepObserver {
 public:
  // `rank`, `stop` and `ring`, which may be null, outlive it. `noun`: what messages call a step.
  Executor(LoadedRank& rank, hal::Stop& stop, std::chrono::milliseconds timeout,
           const trace::RingWriter* ring = nullptr, const char* noun = "step");
  // hal::stopped() when the step did not finish: the reason is in the Stop, and no step can follow. The batches of an
  // evaluation have one step.
  Status run_step(int64_t step);
  // The same, one piece of the rank's step after the other. A failure of the observer's is one of the step.
  Status run_step(int64_t step, const CallByCall& calls, PieceObserver& observer);
  // From now on every instruction is timed; nullptr: no more. Not during a step.
  void set_profile(trace::Profile* profile) { profile_ = profile; }
  // The same for the steps that it wants.
  void set_trace(trace::StepTrace* trace) { trace_ = trace; }
  // Library scratch of the threads of all queues so far, bytes.
  int64_t scratch_high_water();

 private:
  void failed(int32_t queue, int32_t instruction, Status failure, const std::vector<int32_t>& positions) override;
  void reached(int32_t queue, int32_t instruction) override;
  hal::MessageWaits* message_waits(int32_t queue) override;
  void ran(int32_t instruction, Clock::time_point begin, Clock::time_point end, int64_t cpu_ns) override;
  Status run_pieces(const CallByCall& calls, PieceObserver& observer);
  // After what has ended with a failure.
  void end_rank();
  // What kernels of the last step found wrong in their data.
  Status look_for_faults();
  Status watch() override { return rank_.backend->collectives->check(); }

  LoadedRank& rank_;
  hal::Stop& stop_;
  hal::WaitControl wait_;
  const char* noun_;
  trace::Profile* profile_ = nullptr;
  trace::StepTrace* trace_ = nullptr;
  std::vector<trace::RingTrack> tracks_;  // by queue; empty: there is no ring
  std::vector<RingWaits> waits_;          // the same
  std::vector<char> computes_;            // by instruction, for the ring
  int64_t last_cpu_ns_ = 0;               // of the instruction, or piece of one, that was timed last
  int64_t step_ = 0;                      // 0: none was done yet
  uint64_t batch_ = 0;                    // of the step's evaluation
};

}  // namespace piper::exec
