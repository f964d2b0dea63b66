// What a run does beside its steps, as its options ask for it: evaluations, digests, comparisons, times. RankRun has a
// list of them and calls each on the rank's own thread, in the order of the list; the list is the same on every rank,
// so that hooks may talk to those of the other ranks.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/exec/checks/call_by_call.h"
#include "schemas/base/status.h"
#include "schemas/live/page.h"
#include "schemas/live/ring_layout.h"

namespace piper::exec {

class StepHook {
 public:
  virtual ~StepHook() = default;
  struct ByCall {
    const CallByCall& calls;
    PieceObserver& observer;
  };
  // Where it wants the step done call by call; of several hooks the first gets it.
  virtual std::optional<ByCall> by_call(int64_t /*step*/) { return std::nullopt; }
  // What the rank's own thread begins to do.
  virtual void host(live::EventKind /*kind*/, int64_t /*step*/) {}
  // After a step and its report. R0811: what all ranks have found alike, so that all end with it.
  virtual Status after(int64_t /*step*/) { return {}; }
  // Instead of all steps, where none is left to do after `last`.
  virtual Status without_steps(int64_t /*last*/) { return {}; }
  // After the last step, before the rank closes.
  virtual Status finish() { return {}; }
};

// What hooks tell the run of.
class RunReports {
 public:
  virtual void entered(live::EventKind kind, live::RankState state, int64_t step) = 0;
  virtual void evaluated(int64_t step, double loss) = 0;

 protected:
  ~RunReports() = default;
};

}  // namespace piper::exec
