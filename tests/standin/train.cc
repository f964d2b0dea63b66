#include "tests/standin/train.h"

#include <fstream>
#include <sstream>
#include <thread>

#include "runtime/exec/session/session.h"
#include "runtime/hal/local/local_transport.h"
#include "runtime/hal/transport_channel.h"
#include "tests/standin/race_detector.h"
#include "tests/standin/standin_backend.h"

namespace piper::standin {

GpuOptions gpu_options(const Training& training, On on) {
  GpuOptions options = training.gpu;
  options.graphs = on == On::kGraphs;
  return options;
}

Status train(const Training& training, On on) {
  exec::CpuBackendOptions cpu;
  cpu.device.huge_pages = false;
  return train(training, [&](hal::Transport& transport) {
    return on == On::kCpu ? exec::cpu_backend(transport, cpu) : local_backend(transport, gpu_options(training, on));
  });
}

Status train(const Training& training, const MakeRank& make) {
  exec::Session session;
  session.bundle = training.bundle;
  session.weights = training.weights;
  session.data = training.data;
  session.options.steps = training.steps;
  session.options.timeout = training.timeout;
  session.options.save = training.save;
  session.options.save_gradients = training.save_gradients;
  session.options.log = training.log;
  hal::LocalWorld world(static_cast<int32_t>(training.bundle->ranks.size()));
  // A rank that has ended leaves its events to those that may still wait for them.
  std::vector<std::unique_ptr<hal::Transport>> transports;
  for (const plan::RankPlan& plan : training.bundle->ranks) transports.push_back(world.transport(plan.rank));
  std::vector<std::thread> ranks;
  for (size_t r = 0; r < transports.size(); ++r)
    ranks.emplace_back([&, r] {
      hal::TransportChannel control(*transports[r]);
      exec::run_rank(session, training.bundle->ranks[r], make(*transports[r]), control);
    });
  for (std::thread& rank : ranks) rank.join();
  const std::vector<std::string> races = RaceDetector::instance().take_races();
  PIPER_RETURN_IF_ERROR(session.stop.take_failure());
  return races.empty() ? Status() : Status::failure("race", races[0]);
}

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace piper::standin
