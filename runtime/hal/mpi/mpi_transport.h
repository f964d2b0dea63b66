// The MPI transport: one process per rank. One progress thread makes every MPI call of the
// process, from MPI_Init_thread to MPI_Finalize; streams hand it their exchanges and sleep. It yields
// and sleeps between polls, because ranks often share cores. Where MPI has fewer tags than there are
// channels, several of its communicators share them. Built without MPI, make() is an error.
#pragma once

#include <memory>

#include "runtime/hal/transport.h"

namespace piper::hal {

class MpiTransport : public Transport {
 public:
  // Starts MPI. R0104: built without MPI, MPI does not start or has too few tags. At most one per process.
  static Result<std::unique_ptr<MpiTransport>> make();
  // Ends all processes of the run with this exit code, without waiting for them; does not return.
  [[noreturn]] virtual void abort(int exit_code) = 0;
};

}  // namespace piper::hal
