// The step walker: runs the prepared instructions of a rank, each stream's in order, all streams at
// once, and joins them. A failure is raised in the shared Stop with rank, step, instruction and
// provenance; it wakes every other stream and rank of the process.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/exec/load_rank.h"
#include "runtime/trace/profile.h"

namespace piper::exec {

class Executor {
 public:
  // Starts the streams' threads. `threads`: intra-op threads of each stream's kernels.
  Executor(LoadedRank& rank, hal::Stop& stop, std::chrono::milliseconds timeout, int threads);
  // hal::stopped() when the step did not finish; the reason is in the Stop.
  Status run_step(int64_t step, double lr, uint64_t seed);
  // From now on every instruction is timed; nullptr: no more. Not during a step.
  void set_profile(trace::Profile* profile) { profile_ = profile; }
  // Library scratch of all streams so far, bytes.
  int64_t scratch_high_water();

 private:
  // A cache line each: written at every instruction.
  struct alignas(64) Position {
    std::atomic<int32_t> instruction{-1};
  };
  void walk(int stream);
  Status execute(const BoundInstruction& instruction);
  void fail(int stream, int32_t instruction, Status failure);

  LoadedRank& rank_;
  hal::Stop& stop_;
  StepContext context_;
  trace::Profile* profile_ = nullptr;
  std::vector<Position> positions_;  // by stream
  std::unique_ptr<hal::StreamGroup> streams_;
  std::function<void(int)> walk_;
};

}  // namespace piper::exec
