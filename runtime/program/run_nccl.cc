#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include "runtime/bootstrap/rendezvous.h"
#include "runtime/hal/tcp/failure_watch.h"
#include "runtime/hal/tcp/tcp_store_channel.h"
#include "runtime/program/exit_status.h"
#include "runtime/program/inputs.h"
#include "runtime/program/outcome.h"
#include "runtime/program/ranks.h"
#include "schemas/base/check.h"

namespace piper::program {
namespace {

// For threads of a rank, a channel each.
struct Channels {
  std::unique_ptr<hal::TcpStoreChannel> steps, checkpoints, stops;
};

Result<Channels> join(const hal::TcpStoreChannel::Options& options, const hal::WaitControl& wait) {
  Channels channels;
  PIPER_ASSIGN(channels.steps, hal::TcpStoreChannel::join(options, wait));
  PIPER_ASSIGN(channels.checkpoints, channels.steps->beside("checkpoints", wait));
  PIPER_ASSIGN(channels.stops, channels.steps->beside("stops", wait));
  return channels;
}

// All messages of all ranks pass the one process that serves the store.
std::chrono::milliseconds stop_period(int32_t world_size) {
  constexpr int32_t kRanksAtFullPace = 64;
  return exec::StopAgreement::kPeriod * std::clamp(world_size / kRanksAtFullPace, 1, 10);
}

// 0: the rank has run, and what failed is in session.stop; else the exit status with which all ranks are refused. A
// failure is one of the channels. `stopping`: made here, of `session` until it ends.
Result<int> run_one(const Flags& flags, const plan::OpenBundle& opened, const MakeRank& make, Channels& channels,
                    std::optional<exec::StopAgreement>& stopping, Inputs& inputs, exec::Session& session) {
  const hal::WaitControl wait{&session.stop, session.options.timeout};
  hal::ControlChannel& control = *channels.steps;
  Status status = choose_start(flags, &control, wait, inputs);
  if (status.ok()) status = read_inputs(flags, opened, {control.rank()}, inputs, session);
  PIPER_ASSIGN(const int refused, all_ready(status, control, wait));
  if (refused != 0) return refused;
  if (session.requests.checkpoints || session.options.stop_on_nan)
    session.stopping =
        &stopping.emplace(channels.stops.get(), session.stop, session.requests, stop_period(control.world_size()));
  const auto& plans = inputs.bundle.ranks;
  const auto mine =
      std::find_if(plans.begin(), plans.end(), [&](const plan::RankPlan& p) { return p.rank == control.rank(); });
  PIPER_CHECK(mine != plans.end(), "the bundle has no plan of rank ", control.rank());
  std::thread rank(
      [&] { exec::run_rank(session, *mine, make(nullptr, mine->rank), control, channels.checkpoints.get()); });
  rank.join();
  if (stopping && !session.stop.raised()) PIPER_RETURN_IF_ERROR(stopping->end());
  return 0;
}

}  // namespace

int run_nccl(const Flags& flags, const plan::OpenBundle& opened, const bootstrap::RankEnvironment& environment,
             const MakeRank& make, Inputs& inputs, exec::Session& session) {
  const hal::WaitControl wait{&session.stop, session.options.timeout};
  const auto refuse = [&](const Status& status) {
    if (hal::is_stopped(status)) return signal_status(session);
    print_error(status.error());
    return exit_of(status.error().code, kRefused);
  };
  const auto address = bootstrap::read_rendezvous(environment, bootstrap::process_variable);
  if (!address.ok()) return refuse(address.status());
  auto channels = join({*address, environment.rank, environment.size, opened.digest}, wait);
  if (!channels.ok()) return refuse(channels.status());
  auto watch = hal::FailureWatch::begin(channels->steps->options(), session.stop);
  if (!watch.ok()) return refuse(watch.status());

  std::optional<exec::StopAgreement> stopping;
  const auto ran = run_one(flags, opened, make, *channels, stopping, inputs, session);
  if (!ran.ok() && !hal::is_stopped(ran.status())) session.stop.raise(ran.status());
  if (!session.stop.raised()) {
    watch->reset();
    (void)channels->steps->leave(wait);
    return *ran != 0 ? *ran : conclude(session, {}, !session.verdict.ok() && channels->steps->rank() != 0);
  }
  const hal::FailureWatch::Verdict verdict = (*watch)->verdict();
  int exit_code = conclude(session, session.stop.take_failure(), !verdict.speaks);
  // That of the failure that the run ends with.
  if (!verdict.speaks && !verdict.code.empty()) exit_code = exit_of(verdict.code, kFailed);
  (*watch)->leave();
  return exit_code;
}

}  // namespace piper::program
