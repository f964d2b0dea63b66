// piper-run --calibrate: how long each distinct kernel call of the plans takes on this machine, warm, with all ranks of
// the run at work. A rank's step is done call by call. On CPU ranks the processor time of the thread is taken, so
// that ranks that share cores do not count each other's; on a GPU the time between two events of its stream around the
// call, which is all on the stream when it begins. Ranks that share a GPU do count each other's.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/exec/checks/call_by_call.h"
#include "runtime/exec/session/session.h"
#include "runtime/exec/session/step_hook.h"
#include "runtime/hal/control_channel.h"

namespace piper::exec {

class Calibration : public StepHook, public PieceObserver {
 public:
  // For a loaded rank; all outlive it. Errors of CallByCall::make.
  static Result<std::unique_ptr<Calibration>> make(const Session& session, const LoadedRank& rank,
                                                   hal::ControlChannel& control, const hal::WaitControl& wait);
  // Steps before the kFirstStep-th one are not counted, as in a profile.
  std::optional<ByCall> by_call(int64_t step) override;
  void took(const StepPiece& piece, int64_t ns) override;
  Status after(const StepPiece&) override { return {}; }
  Status finish() override;  // collective; R0601

 private:
  Calibration(const Session& session, hal::ControlChannel& control, const hal::WaitControl& wait)
      : session_(session), control_(control), wait_(wait) {}
  // {"call":KEY,"us":MEDIAN,"count":N}, one a line, sorted by key (plan::call_key). "" where no step was counted.
  std::string lines() const;

  const Session& session_;
  hal::ControlChannel& control_;
  hal::WaitControl wait_;
  std::unique_ptr<CallByCall> calls_;
  std::map<const plan::KernelCall*, std::string> keys_;
  std::map<std::string, std::vector<int64_t>> times_ns_;  // by key
  bool counted_ = false;
};

}  // namespace piper::exec
