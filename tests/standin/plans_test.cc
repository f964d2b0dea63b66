// Small plans written by hand, on the stand-in's GPU: the bits of the CPU.
#include <catch2/catch.hpp>

#include "tests/standin/train_plan.h"
#include "tests/unit/hand_written_plans.h"

namespace piper::standin {
namespace {

PlanTrained trained(const plan::Bundle& bundle, On on) {
  return train_plan(bundle, [on](const Training& training) { return train(training, on); }, {.gradients = true});
}

TEST_CASE("messages, sums, parts and exchanges between ranks on a GPU give the bits of the CPU") {
  const std::pair<const char*, plan::Bundle> bundles[] = {{"pipeline", hand_written::pipeline()},
                                                          {"replicas", hand_written::replicas()},
                                                          {"sharded", hand_written::sharded()}};
  for (const auto& [name, bundle] : bundles) {
    INFO(name);
    const PlanTrained cpu = trained(bundle, On::kCpu);
    CHECK(cpu.failure().empty());
    for (const On on : {On::kGpu, On::kGraphs}) {
      INFO((on == On::kGpu ? "without graphs" : "with graphs"));
      const PlanTrained gpu = trained(bundle, on);
      CHECK(gpu.failure().empty());
      CHECK(cpu.weights == gpu.weights);
      CHECK(cpu.gradients == gpu.gradients);
    }
  }
}

}  // namespace
}  // namespace piper::standin
