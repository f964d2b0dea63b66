// `--digest FILE`: digests of all values of the steps that are asked for. Every rank digests what it makes; rank 0 gets
// all of it after each step and writes it, in the order of the flow of data (schemas/digest).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/exec/checks/call_by_call.h"
#include "runtime/exec/session/session.h"
#include "runtime/exec/session/step_hook.h"
#include "runtime/trace/step_log.h"
#include "schemas/digest/step_values.h"

namespace piper::exec {

class DigestRecorder : public StepHook, public PieceObserver {
 public:
  // For a loaded rank; all outlive it. R0601 where rank 0 cannot write the file; errors of StepValues::read().
  static Result<std::unique_ptr<DigestRecorder>> make(Session& session, const LoadedRank& rank,
                                                      hal::ControlChannel& control);
  std::optional<ByCall> by_call(int64_t step) override;
  Status after(const StepPiece& piece) override;
  Status after(int64_t step) override;  // collective; R0601

 private:
  struct Found {  // as it travels
    int32_t instruction, call, output, unused;
    digest::Statistic statistic;
  };
  static_assert(std::is_trivially_copyable_v<Found>);
  DigestRecorder(Session& session, const LoadedRank& rank, hal::ControlChannel& control)
      : session_(session), rank_(rank), control_(control) {}
  bool due(int64_t step) const;
  Status write_step(int64_t step, const std::vector<std::string>& all);

  Session& session_;
  const LoadedRank& rank_;
  hal::ControlChannel& control_;
  std::unique_ptr<CallByCall> calls_;
  std::vector<Found> found_;                    // of the step that is under way
  std::unique_ptr<digest::StepValues> values_;  // on rank 0
  trace::StepLog file_;                         // on rank 0
};

}  // namespace piper::exec
