// One process a rank: how this process joins the others of a launch, and how it leaves them. Used by piper-run for CPU
// ranks; it knows no plan.
#pragma once

#include <memory>
#include <string>

#include "runtime/bootstrap/rank_environment.h"
#include "runtime/hal/stop.h"
#include "runtime/hal/transport.h"

namespace piper::bootstrap {

// Left in order by being destroyed, which every rank does after its last message; or by abort().
class ProcessWorld {
 public:
  virtual ~ProcessWorld() = default;
  virtual hal::Transport& transport() = 0;
  // Ends this process without waiting for others, with MPI those of all ranks. Over UCX the launcher ends the others,
  // and what waits for this rank fails.
  [[noreturn]] virtual void abort(int exit_code) = 0;
};

// R0104: there is no MPI, or it does not start.
Result<std::unique_ptr<ProcessWorld>> join_by_mpi();
// The ranks meet where the launcher's variables say, and compare the digests of their bundles. R0104: there is no UCX;
// R0303: it does not start; what read_rendezvous() and TcpStoreChannel::join() return.
Result<std::unique_ptr<ProcessWorld>> join_by_ucx(const RankEnvironment& environment, const std::string& bundle_digest,
                                                  const hal::WaitControl& wait);

}  // namespace piper::bootstrap
