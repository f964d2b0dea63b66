// Reports to the other processes of a run that this one has failed, and hears of theirs, over a connection of its own
// to the run's TCP store: who waits for a process that has ended would wait until its time is up. The first process
// that fails reports it to the user, the others end in silence and with its exit status. For ranks without MPI, which
// has MPI_Abort().
#pragma once

#include <memory>
#include <string>

#include "runtime/hal/stop.h"
#include "runtime/hal/tcp/tcp_store_channel.h"

namespace piper::hal {

class FailureWatch {
 public:
  // After TcpStoreChannel::join(). `stop` outlives the result; it is raised, with a failure that needs no message,
  // when another process has failed. R0303.
  static Result<std::unique_ptr<FailureWatch>> begin(const TcpStoreChannel::Options& run, Stop& stop);
  ~FailureWatch();
  FailureWatch(const FailureWatch&) = delete;
  FailureWatch& operator=(const FailureWatch&) = delete;

  struct Verdict {
    bool speaks = true;  // this process reports its failure
    std::string code;    // of the failure that the run ends with; "" where that was a signal
  };
  // Once Stop is raised. Failures that others may have caused, R0302 and R0303, wait kGrace for the cause.
  Verdict verdict();
  // After the message: the process that serves the store stays until the others have come here, at most kFarewell.
  void leave();

  static constexpr std::chrono::milliseconds kGrace{1000}, kFarewell{5000};

 private:
  struct State;
  explicit FailureWatch(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;  // with the thread, which is left behind where the store does not answer
};

}  // namespace piper::hal
