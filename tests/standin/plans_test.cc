// Small plans written by hand, on the stand-in's GPU: the bits of the CPU.
#include <catch2/catch.hpp>

#include "tests/standin/train.h"
#include "tests/unit/hand_written_plans.h"
#include "tests/unit/temp_folder.h"

namespace piper::standin {
namespace {

// Weights and gradients of a training, as they are saved.
struct Saved {
  std::string weights, gradients;
};

Saved trained(const plan::Bundle& bundle, On on, int64_t steps) {
  const TempFolder folder;
  REQUIRE(hand_written::write_files(folder.path().string()).ok());
  const auto weights = checkpoint::WeightSource::open("", folder / "weights.safetensors", bundle.manifest);
  data::DataOptions options;
  options.path = folder / "data.safetensors";
  const auto data = data::DataSource::open(options, bundle.manifest);
  REQUIRE(weights.ok());
  REQUIRE(data.ok());
  const Status status =
      train({&bundle, &*weights, data->get(), steps, folder / "saved", folder / "gradients", folder / "log", {}}, on);
  INFO((status.ok() ? "" : status.error().message));
  REQUIRE(status.ok());
  return {contents(folder / "saved"), contents(folder / "gradients")};
}

TEST_CASE("messages, sums, parts and exchanges between ranks on a GPU give the bits of the CPU") {
  const std::pair<const char*, plan::Bundle> bundles[] = {{"pipeline", hand_written::pipeline()},
                                                          {"replicas", hand_written::replicas()},
                                                          {"sharded", hand_written::sharded()}};
  for (const auto& [name, bundle] : bundles) {
    INFO(name);
    const Saved cpu = trained(bundle, On::kCpu, 3);
    for (const On on : {On::kGpu, On::kGraphs}) {
      INFO((on == On::kGpu ? "without graphs" : "with graphs"));
      const Saved gpu = trained(bundle, on, 3);
      CHECK(cpu.weights == gpu.weights);
      CHECK(cpu.gradients == gpu.gradients);
    }
  }
}

}  // namespace
}  // namespace piper::standin
