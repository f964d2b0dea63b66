// Before a run that saves checkpoints: who may write to the folder, and where the run goes on.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "runtime/checkpoint/write_checkpoint.h"
#include "runtime/hal/control_channel.h"
#include "schemas/checkpoint/open_checkpoint.h"

namespace piper::checkpoint {

struct StartOptions {
  std::string folder;
  bool resume = false;
  int64_t exact = -1;  // the step to go on from; -1: the newest valid one
  int64_t keep = 0;
};
struct Start {
  std::unique_ptr<Storage> storage;
  std::optional<OpenCheckpoint> from;  // nothing: the run begins at step 1
  WriterOptions writer;
};

// Collective over the processes of a run; `control` is null where there is one. The first process locks the folder and
// chooses the checkpoint; all of them check its bytes, each a part, and open it, or fail. They wait for each other as
// long as the files take. `note` gets by the first one of damaged ones that are passed over. R0701, R0702, R0704,
// R0705; failures of the channel. A process whose peer has failed may succeed.
Result<Start> choose_start(const StartOptions& options, hal::ControlChannel* control, const hal::WaitControl& wait,
                           const std::function<void(const std::string&)>& note);

}  // namespace piper::checkpoint
