// The signals of a run. SIGINT stops it, SIGTERM and SIGUSR1 with a checkpoint where it saves some, SIGUSR2 asks for a
// checkpoint in between; a second SIGINT or SIGTERM ends the process at once. SIGALRM is the end of SIGTERM's grace
// period. SIGBUS says which file was cut under the run. docs/stopping.md.
#pragma once

#include "runtime/exec/session/stop_requests.h"
#include "runtime/hal/stop.h"

namespace piper::program {

// One at a time in a process. Handlers set flags of the two and nothing more; both outlive it.
class SignalHandlers {
 public:
  SignalHandlers(hal::Stop& stop, exec::StopRequests& requests);
  ~SignalHandlers();
  SignalHandlers(const SignalHandlers&) = delete;
  SignalHandlers& operator=(const SignalHandlers&) = delete;
};

// "SIGTERM".
const char* signal_name(int signal_number);

}  // namespace piper::program
