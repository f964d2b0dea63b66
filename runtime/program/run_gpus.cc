#include <algorithm>
#include <thread>

#include "runtime/bootstrap/rendezvous.h"
#include "runtime/exec/cuda_backend.h"
#include "runtime/hal/tcp/tcp_store_channel.h"
#include "runtime/program/exit_status.h"
#include "runtime/program/inputs.h"
#include "runtime/program/outcome.h"
#include "runtime/program/ranks.h"
#include "schemas/base/check.h"

namespace piper::program {
namespace {

// This process is one rank of several; their data go by NCCL, what hosts tell each other by the store that the launcher
// says.
int run_nccl(const Flags& flags, const plan::OpenBundle& opened, const bootstrap::RankEnvironment& environment,
             const MakeRank& make, exec::Session& session) {
  const bool speaks = environment.rank == 0;
  const hal::WaitControl wait{&session.stop, session.options.timeout};
  const auto refuse = [&](const Error& error) {
    print_error(error);
    return kRefused;
  };
  if (!flags.checkpoints.empty())
    return refuse({"R0106", "checkpoints are not written by ranks over NCCL: leave out --checkpoint", false});
  auto address = bootstrap::read_rendezvous(environment, bootstrap::process_variable);
  if (!address.ok()) return refuse(address.error());
  auto joined =
      hal::TcpStoreChannel::join({std::move(address).value(), environment.rank, environment.size, opened.digest}, wait);
  if (!joined.ok()) return hal::is_stopped(joined.status()) ? kRefused : refuse(joined.error());
  hal::TcpStoreChannel& control = **joined;
  Inputs inputs;
  const Status status = read_inputs(flags, opened, {environment.rank}, inputs, session);
  const auto ready = all_ready(status, control, wait);
  if (!ready.ok()) return hal::is_stopped(ready.status()) ? kRefused : refuse(ready.error());
  if (!*ready) {
    (void)control.leave(wait);
    return kRefused;
  }
  const auto& plans = inputs.bundle.ranks;
  const auto mine =
      std::find_if(plans.begin(), plans.end(), [&](const plan::RankPlan& p) { return p.rank == environment.rank; });
  PIPER_CHECK(mine != plans.end(), "the bundle has no plan of rank ", environment.rank);
  std::thread rank([&] { exec::run_rank(session, *mine, make(nullptr, mine->rank), control); });
  rank.join();
  if (!session.stop.raised()) {
    (void)control.leave(wait);
    return conclude(session, {}, false);
  }
  const Status failure = session.stop.take_failure();
  return conclude(session, failure, !speaks && (failure.ok() || failure.error().code == "R0102"));
}

}  // namespace

int run_gpus(const Flags& flags, const plan::OpenBundle& opened, const bootstrap::RankEnvironment& environment,
             bootstrap::Transport transport, const std::function<int(const Error&)>& refuse, exec::Session& session) {
  const int32_t world_size = opened.manifest.world_size;
  const auto cuda = exec::open_cuda();
  if (!cuda.ok()) return refuse(cuda.error());
  if (opened.manifest.target.device != plan::DeviceKind::kCuda)
    return refuse({"R0106", "the plan was compiled for CPU ranks: compile it with piperc --device cuda", false});
  const bool by_nccl = transport == bootstrap::Transport::kNccl, alone = environment.size == 1;
  if (by_nccl && alone && cuda->devices < world_size)
    return refuse({"R0106",
                   "--comm nccl wants a GPU for each of the " + std::to_string(world_size) + " ranks, and here are " +
                       std::to_string(cuda->devices) + ": use --comm local, which runs several on one",
                   false});
  int32_t local_rank = 0;
  if (!alone) {
    const auto read = bootstrap::read_local_rank(environment, bootstrap::process_variable);
    if (!read.ok()) return refuse(read.error());
    local_rank = *read;
  }
  const MakeRank make = [&](hal::Transport* links, int32_t rank) {
    exec::CudaBackendOptions options;
    options.ordinal = (alone ? rank : local_rank) % cuda->devices;
    options.graphs = flags.cuda_graph;
    options.summing = opened.manifest.target.summing;
    options.transport = links;
    return cuda->backend(options);
  };
  return alone ? run_here(flags, opened, make, !by_nccl, session) : run_nccl(flags, opened, environment, make, session);
}

}  // namespace piper::program
