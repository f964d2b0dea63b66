// Small plans written by hand, trained with CUDA's own kernels under the shim: the weights of the CPU.
#include <catch2/catch.hpp>

#include "tests/shim/blocks.h"
#include "tests/shim/shim_backend.h"
#include "tests/standin/train_plan.h"
#include "tests/unit/hand_written_plans.h"

namespace piper::shim {
namespace {

using standin::On;

standin::PlanTrained trained(const plan::Bundle& bundle, On on) {
  standin::PlanTrained result = standin::train_plan(bundle, [on](standin::Training training) {
    training.timeout = std::chrono::seconds(30);
    use_own_kernels(training.gpu);
    return standin::train(training, on);
  });
  CHECK(take_failure().empty());
  return result;
}

// The pipeline, whose second rank asks for an expert for each of its two samples, both for the same one.
plan::Bundle asking_for(int64_t expert) {
  plan::Bundle bundle = hand_written::pipeline();
  plan::Program& last = bundle.programs.at(2);
  const auto list = [](int64_t offset) {
    plan::Operand operand;
    operand.slot = plan::Operand::kWorkspace;
    operand.offset = offset;
    operand.dtype = DType::kI64;
    operand.shape = {2};
    operand.strides = {1};
    return operand;
  };
  plan::KernelCall ids, order;
  ids.kernel = "fill";
  ids.outputs = {list(16)};
  ids.attrs = {{"value", static_cast<double>(expert)}};
  order.kernel = "expert_order";
  order.inputs = {list(16)};
  order.outputs = {list(32)};
  order.attrs = {{"experts", int64_t{2}}, {"segments", int64_t{1}}, {"capacity", int64_t{1}}, {"strict", true}};
  order.origin = "model";
  last.calls.insert(last.calls.begin(), {ids, order});
  return bundle;
}

TEST_CASE("plans train with CUDA's own kernels to the CPU's weights") {
  const std::pair<const char*, plan::Bundle> bundles[] = {{"pipeline", hand_written::pipeline()},
                                                          {"replicas", hand_written::replicas()},
                                                          {"sharded", hand_written::sharded()}};
  for (const auto& [name, bundle] : bundles) {
    INFO(name);
    const uint64_t before = launches();
    const standin::PlanTrained expected = trained(bundle, On::kCpu);
    CHECK(expected.failure().empty());
    CHECK(launches() == before);
    for (const On on : {On::kGpu, On::kGraphs}) {
      const uint64_t launched = launches();
      const standin::PlanTrained result = trained(bundle, on);
      CHECK(result.failure().empty());
      CHECK(result.weights == expected.weights);
      CHECK(launches() > launched);
    }
  }
}

// A kernel on a GPU cannot throw: the record that it writes is read after the step.
TEST_CASE("data that a kernel cannot work with stop the run in that step, in the CPU's words") {
  const std::pair<int64_t, std::string> cases[] = {
      {1, "2 rows are over the capacity of 1 rows of an expert; expert 1 is asked for 2"},
      {7, " asks for expert 7 of 2"}};  // either row may be reported
  for (const auto& [expert, words] : cases) {
    const plan::Bundle bundle = asking_for(expert);
    const standin::PlanTrained cpu = trained(bundle, On::kCpu);
    INFO(cpu.failure());
    CHECK(cpu.failure().find("rank 1, step 1, instr ") != std::string::npos);
    CHECK(cpu.failure().find("place at s.yaml:3:5") != std::string::npos);
    CHECK(cpu.failure().find(words) != std::string::npos);
    for (const On on : {On::kGpu, On::kGraphs}) {
      const standin::PlanTrained gpu = trained(bundle, on);
      INFO(gpu.failure());
      CHECK(gpu.failure().substr(0, gpu.failure().find("row")) == cpu.failure().substr(0, cpu.failure().find("row")));
      CHECK(gpu.failure().find(words) != std::string::npos);
      CHECK(gpu.weights.empty());
    }
  }
}

}  // namespace
}  // namespace piper::shim
