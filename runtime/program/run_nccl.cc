#include <algorithm>
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

// 0: the rank has run, and what failed is in session.stop; else the exit status with which all ranks are refused. A
// failure is one of `control`.
Result<int> run_one(const Flags& flags, const plan::OpenBundle& opened, const MakeRank& make,
                    hal::ControlChannel& control, hal::ControlChannel& checkpoint_control, exec::Session& session) {
  const hal::WaitControl wait{&session.stop, session.options.timeout};
  Inputs inputs;
  Status status = choose_start(flags, &control, wait, inputs);
  if (status.ok()) status = read_inputs(flags, opened, {control.rank()}, inputs, session);
  PIPER_ASSIGN(const int refused, all_ready(status, control, wait));
  if (refused != 0) return refused;
  const auto& plans = inputs.bundle.ranks;
  const auto mine =
      std::find_if(plans.begin(), plans.end(), [&](const plan::RankPlan& p) { return p.rank == control.rank(); });
  PIPER_CHECK(mine != plans.end(), "the bundle has no plan of rank ", control.rank());
  std::thread rank([&] { exec::run_rank(session, *mine, make(nullptr, mine->rank), control, &checkpoint_control); });
  rank.join();
  return 0;
}

}  // namespace

int run_nccl(const Flags& flags, const plan::OpenBundle& opened, const bootstrap::RankEnvironment& environment,
             const MakeRank& make, exec::Session& session) {
  const hal::WaitControl wait{&session.stop, session.options.timeout};
  const auto refuse = [](const Status& status) {
    if (!hal::is_stopped(status)) print_error(status.error());
    return kRefused;
  };
  const auto address = bootstrap::read_rendezvous(environment, bootstrap::process_variable);
  if (!address.ok()) return refuse(address.status());
  const auto control = hal::TcpStoreChannel::join({*address, environment.rank, environment.size, opened.digest}, wait);
  if (!control.ok()) return refuse(control.status());
  const auto checkpoint_control = (*control)->beside("checkpoints", wait);
  if (!checkpoint_control.ok()) return refuse(checkpoint_control.status());
  auto watch = hal::FailureWatch::begin((*control)->options(), session.stop);
  if (!watch.ok()) return refuse(watch.status());

  const auto ran = run_one(flags, opened, make, **control, **checkpoint_control, session);
  if (!ran.ok() && !hal::is_stopped(ran.status())) session.stop.raise(ran.status());
  if (!session.stop.raised()) {
    watch->reset();
    (void)(*control)->leave(wait);
    return *ran != 0 ? *ran : conclude(session, {}, false);
  }
  const hal::FailureWatch::Verdict verdict = (*watch)->verdict();
  int exit_code = conclude(session, session.stop.take_failure(), !verdict.speaks);
  // That of the failure that the run ends with.
  if (!verdict.speaks && !verdict.code.empty()) exit_code = exit_of(verdict.code, kFailed);
  (*watch)->leave();
  return exit_code;
}

}  // namespace piper::program
