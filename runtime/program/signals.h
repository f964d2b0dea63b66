// SIGINT and SIGTERM stop a run, a second one ends the process at once; SIGBUS says which file was cut under the run.
#pragma once

#include "runtime/hal/stop.h"

namespace piper::program {

// One at a time in a process. `stop` outlives it.
class SignalHandlers {
 public:
  explicit SignalHandlers(hal::Stop& stop);
  ~SignalHandlers();
  SignalHandlers(const SignalHandlers&) = delete;
  SignalHandlers& operator=(const SignalHandlers&) = delete;
};

}  // namespace piper::program
