// What made the loss of a step no number. After a step that all ranks agreed on (StopAction::kReplay) the training is
// done once more from the newest checkpoint of the run, else from where the run began, call by call, until the first
// step that ends with such a number; the first call of it that made one is reported (nan_watch.h). Steps are functions
// of state, data and step alone, so the replay comes to the same numbers. Nothing is saved.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/exec/executor.h"
#include "runtime/exec/checks/nan_watch.h"
#include "runtime/exec/session/session.h"
#include "runtime/exec/step_inputs.h"
#include "runtime/exec/step_results.h"

namespace piper::exec {

// What the reporting rank has found.
struct NanFound {
  int64_t step = 0;
  std::string what;  // "step 7: the loss is NaN"
};

class NanReplay {
 public:
  // `data_shift`: by how many steps the data are ahead. All outlive it.
  NanReplay(Session& session, LoadedRank& rank, hal::ControlChannel& control, Executor& executor, int64_t data_shift);
  // Collective, after a step that every rank has done, with no checkpoint under way. `committed`: step of the newest
  // checkpoint of the run, 0: there is none. R0801, the same on every rank; other failures where the replay fails.
  Status run(const NanFound& found, int64_t committed);

 private:
  Status load_start(int64_t committed, std::string& why_not);
  Result<bool> replay_step(int64_t step, StepInputs& inputs, StepResults& results, std::string& verdict);
  Result<std::string> broken_state();
  Result<std::string> broken_input();
  Result<std::string> verdict_of(int64_t step, const std::vector<std::string>& all);

  Session& session_;
  LoadedRank& rank_;
  hal::ControlChannel& control_;
  Executor& executor_;
  hal::WaitControl wait_;
  int64_t data_shift_, start_ = 0;  // start_: the step after which the replay begins
  std::optional<checkpoint::OpenCheckpoint> checkpoint_;
  std::unique_ptr<CallByCall> calls_;
  NanWatch watch_;
  // Makers of steps that ended well: the model means them, as where() hides a logarithm of 0.
  std::set<std::tuple<int32_t, int32_t, int32_t, bool>> meant_;
};

}  // namespace piper::exec
