// Small plans written by hand, trained with CUDA's own kernels under the shim: the weights of the CPU.
#include <catch2/catch.hpp>

#include "tests/shim/blocks.h"
#include "tests/shim/shim_backend.h"
#include "tests/standin/train.h"
#include "tests/unit/hand_written_plans.h"
#include "tests/unit/temp_folder.h"

namespace piper::shim {
namespace {

using standin::On;

// The weights behind three steps, as they are saved.
std::string trained(const plan::Bundle& bundle, On on) {
  const TempFolder folder;
  REQUIRE(hand_written::write_files(folder.path().string()).ok());
  const auto weights = checkpoint::WeightSource::open("", folder / "weights.safetensors", bundle.manifest);
  data::DataOptions options;
  options.path = folder / "data.safetensors";
  const auto data = data::DataSource::open(options, bundle.manifest);
  REQUIRE(weights.ok());
  REQUIRE(data.ok());
  standin::Training training{&bundle, &*weights, data->get(), 3, folder / "saved", "", folder / "log", {}};
  training.timeout = std::chrono::seconds(30);
  use_own_kernels(training.gpu);
  const Status status = standin::train(training, on);
  INFO((status.ok() ? "" : status.error().message));
  REQUIRE(status.ok());
  CHECK(take_failure().empty());
  return standin::contents(folder / "saved");
}

TEST_CASE("plans train with CUDA's own kernels to the CPU's weights") {
  const std::pair<const char*, plan::Bundle> bundles[] = {{"pipeline", hand_written::pipeline()},
                                                          {"replicas", hand_written::replicas()},
                                                          {"sharded", hand_written::sharded()}};
  for (const auto& [name, bundle] : bundles) {
    INFO(name);
    const uint64_t before = launches();
    const std::string expected = trained(bundle, On::kCpu);
    CHECK(launches() == before);
    for (const On on : {On::kGpu, On::kGraphs}) {
      const uint64_t launched = launches();
      CHECK(trained(bundle, on) == expected);
      CHECK(launches() > launched);
    }
  }
}

}  // namespace
}  // namespace piper::shim
