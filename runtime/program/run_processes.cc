#include <signal.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "runtime/bootstrap/process_world.h"
#include "runtime/hal/transport_channel.h"
#include "runtime/program/exit_status.h"
#include "runtime/program/inputs.h"
#include "runtime/program/outcome.h"
#include "runtime/program/ranks.h"
#include "schemas/base/check.h"

namespace piper::program {

namespace {

// NCCL reports to every rank that another one has gone: MPI ends this one, too, where that one had more to say.
bool ended_by_cause(const Status& failure, const hal::Stop& stop) {
  using std::chrono::milliseconds;
  constexpr milliseconds kGrace{1000}, kTurn{20};
  if (failure.ok() || failure.error().code != "R0303") return false;
  for (milliseconds waited{0}; waited < kGrace && stop.signal_number() != SIGTERM; waited += kTurn)
    std::this_thread::sleep_for(kTurn);
  return stop.signal_number() == SIGTERM;
}

int run_in(bootstrap::ProcessWorld& world, const Flags& flags, const plan::OpenBundle& opened, const MakeRank& make,
           bool by_transport, Inputs& inputs, exec::Session& session) {
  hal::Transport& transport = world.transport();
  hal::TransportChannel control(transport);
  if (Status status = bootstrap::check_world_size(transport.world_size(), opened.manifest.world_size); !status.ok()) {
    if (transport.rank() == 0) print_error(status.error());
    return kRefused;
  }
  const hal::WaitControl wait{&session.stop, session.options.timeout};
  Status status = choose_start(flags, &control, wait, inputs);
  if (status.ok()) status = read_inputs(flags, opened, {transport.rank()}, inputs, session);
  const auto ready = all_ready(status, control, wait);
  if (ready.ok() && *ready != 0) return *ready;
  if (!ready.ok()) {
    if (!hal::is_stopped(ready.status())) print_error(ready.error());
    world.abort(session.stop.signal_number() != 0 ? signal_status(session) : exit_of(ready.error().code, kRefused));
  }
  hal::TransportChannel stop_control(transport, hal::kStopChannel);
  std::optional<exec::StopAgreement> stopping;
  if (session.requests.checkpoints || session.options.stop_on_nan)
    session.stopping = &stopping.emplace(&stop_control, session.stop, session.requests);
  const auto& plans = inputs.bundle.ranks;
  const auto mine =
      std::find_if(plans.begin(), plans.end(), [&](const plan::RankPlan& p) { return p.rank == transport.rank(); });
  PIPER_CHECK(mine != plans.end(), "the bundle has no plan of rank ", transport.rank());
  hal::TransportChannel checkpoint_control(transport, hal::kCheckpointChannel);
  std::thread rank([&] {
    exec::run_rank(session, *mine, make(by_transport ? &transport : nullptr, mine->rank), control, &checkpoint_control);
  });
  rank.join();

  const bool speaks = transport.rank() == 0;
  if (stopping && !session.stop.raised())
    if (Status ended = stopping->end(); !ended.ok()) session.stop.raise(std::move(ended));
  if (!session.stop.raised()) return conclude(session, {}, !speaks);
  const Status failure = session.stop.take_failure();
  // What every rank found alike needs one message, and nobody is left waiting.
  if (!failure.ok() && failure.error().code == "R0102") return conclude(session, failure, !speaks);
  // Other ranks wait for this one: MPI or the launcher ends them, and where it is by SIGTERM the cause is reported
  // already.
  const bool told = failure.ok() ? session.stop.signal_number() == SIGTERM || !speaks
                                 : !by_transport && ended_by_cause(failure, session.stop);
  const int exit_code = conclude(session, failure, told);
  world.abort(exit_code);
  return exit_code;
}

}  // namespace

int run_processes(const Flags& flags, const plan::OpenBundle& opened, const MakeRank& make, bool by_transport,
                  const bootstrap::RankEnvironment& environment, bootstrap::CommBackend comm, Inputs& inputs,
                  exec::Session& session) {
  const hal::WaitControl wait{&session.stop, session.options.timeout};
  const auto world = comm == bootstrap::CommBackend::kUcx ? bootstrap::join_by_ucx(environment, opened.digest, wait)
                                                          : bootstrap::join_by_mpi();
  if (world.ok()) return run_in(**world, flags, opened, make, by_transport, inputs, session);
  if (hal::is_stopped(world.status())) return signal_status(session);
  print_error(world.error());
  return exit_of(world.error().code, kRefused);
}

}  // namespace piper::program
