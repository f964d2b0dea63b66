#include <signal.h>

#include <algorithm>
#include <thread>

#include "runtime/hal/mpi/mpi_transport.h"
#include "runtime/hal/transport_channel.h"
#include "runtime/program/exit_status.h"
#include "runtime/program/inputs.h"
#include "runtime/program/outcome.h"
#include "runtime/program/ranks.h"
#include "schemas/base/check.h"

namespace piper::program {

int run_mpi(const Flags& flags, const plan::OpenBundle& opened, const exec::CpuBackendOptions& cpu,
            exec::Session& session) {
  auto made = hal::MpiTransport::make();
  if (!made.ok()) {
    print_error(made.error());
    return kRefused;
  }
  hal::MpiTransport& transport = **made;
  hal::TransportChannel control(transport);
  if (Status status = bootstrap::check_world_size(transport.world_size(), opened.manifest.world_size); !status.ok()) {
    if (transport.rank() == 0) print_error(status.error());
    return kRefused;
  }
  Inputs inputs;
  const hal::WaitControl wait{&session.stop, session.options.timeout};
  Status status = choose_start(flags, &control, wait, inputs);
  if (status.ok()) status = read_inputs(flags, opened, {transport.rank()}, inputs, session);
  const auto ready = all_ready(status, control, wait);
  if (ready.ok() && *ready != 0) return *ready;
  if (!ready.ok()) {
    if (!hal::is_stopped(ready.status())) print_error(ready.error());
    transport.abort(kRefused);
  }
  const auto& plans = inputs.bundle.ranks;
  const auto mine =
      std::find_if(plans.begin(), plans.end(), [&](const plan::RankPlan& p) { return p.rank == transport.rank(); });
  PIPER_CHECK(mine != plans.end(), "the bundle has no plan of rank ", transport.rank());
  hal::TransportChannel checkpoint_control(transport, hal::kCheckpointChannel);
  std::thread rank(
      [&] { exec::run_rank(session, *mine, exec::cpu_backend(transport, cpu), control, &checkpoint_control); });
  rank.join();

  if (!session.stop.raised()) return conclude(session, {}, false);
  const bool speaks = transport.rank() == 0;
  const Status failure = session.stop.take_failure();
  // What every rank found alike needs one message, and nobody is left waiting.
  if (!failure.ok() && failure.error().code == "R0102") return conclude(session, failure, !speaks);
  // Other ranks wait for this one: MPI ends them, and where it does so by SIGTERM the cause is told already.
  const int exit_code =
      conclude(session, failure, failure.ok() && (session.stop.signal_number() == SIGTERM || !speaks));
  transport.abort(exit_code);
  return exit_code;
}

}  // namespace piper::program
