#include <thread>
#include <vector>

#include "runtime/hal/local/local_transport.h"
#include "runtime/hal/transport_channel.h"
#include "runtime/program/exit_status.h"
#include "runtime/program/inputs.h"
#include "runtime/program/outcome.h"
#include "runtime/program/ranks.h"

namespace piper::program {

int run_here(const Flags& flags, const plan::OpenBundle& opened, const MakeRank& make, bool by_transport,
             Inputs& inputs, exec::Session& session) {
  const int32_t world_size = opened.manifest.world_size;
  exec::StopAgreement stopping(nullptr, session.stop, session.requests);
  session.stopping = &stopping;
  Status status = choose_start(flags, nullptr, {}, inputs);
  if (status.ok()) status = read_inputs(flags, opened, {}, inputs, session);
  if (!status.ok()) {
    print_error(status.error());
    return exit_of(status.error().code, kRefused);
  }
  hal::LocalWorld world(world_size);
  std::vector<std::unique_ptr<hal::Transport>> transports;
  for (int32_t r = 0; r < world_size; ++r) transports.push_back(world.transport(r));
  std::vector<std::thread> ranks;
  for (const plan::RankPlan& plan : inputs.bundle.ranks)
    ranks.emplace_back([&session, &plan, &make, by_transport,
                        &transport = *transports[static_cast<size_t>(plan.rank)]] {
      hal::TransportChannel control(transport), checkpoint_control(transport, hal::kCheckpointChannel);
      exec::run_rank(session, plan, make(by_transport ? &transport : nullptr, plan.rank), control, &checkpoint_control);
    });
  for (std::thread& rank : ranks) rank.join();
  return conclude(session, session.stop.take_failure(), false);
}

}  // namespace piper::program
