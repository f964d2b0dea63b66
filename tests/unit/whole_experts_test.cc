// Whole experts over places: each place orders and sends the rows of its own part of the sequence, and what becomes of
// them is the model's.
#include <catch2/catch.hpp>

#include <algorithm>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "schemas/plan/actions.h"
#include "schemas/plan/attrs.h"
#include "schemas/verify/verify.h"
#include "tests/unit/compiled_plans.h"

using namespace piper;
using namespace piper::plan;

namespace {

const char* const kModel = "tiny_routed_tokens.onnx";

// Two replicas of two ranks, whose experts are over these groups.
std::string over(const std::string& groups, const std::string& more = "") {
  return "piper: 1\nmodel: {batch: 8}\noptimizer: {sgd: {lr: 0.1}}\n"
         "annotate: [{tag: EP, modules: [mixture]}]\ndirectives:\n"
         "  - {op: replicate, filter: {}, devices: [0, 1, 2, 3]}\n"
         "  - {op: shard, filter: {}, dim: column, over: [[0, 1], [2, 3]]}\n"
         "  - {op: shard, filter: {}, dim: sequence, over: [[0, 1], [2, 3]]}\n"
         "  - {op: shard, filter: {EP: \"*\"}, over: " +
         groups + more + "}\n";
}
const std::string kAll = over("[[0, 1, 2, 3]]"), kOwn = over("[[0, 1], [2, 3]]"), kTurned = over("[[2, 3, 0, 1]]");

}  // namespace

TEST_CASE("experts over places are whole there, beside columns of what is not an expert, and the plan is the model") {
  for (const std::string& strategy : {kAll, kOwn, kTurned}) {
    const Bundle bundle = compiled::bundle(kModel, strategy);
    std::vector<std::string> cut;
    for (const TensorInfo& tensor : bundle.manifest.tensors)
      if (tensor.cut) cut.push_back(tensor.name);
    std::sort(cut.begin(), cut.end());
    CHECK(cut == std::vector<std::string>{"down.weight", "up.bias", "up.weight"});
    const auto report = verify::verify(bundle);
    INFO(strategy << (report.ok() ? describe(report->equality) : report.error().message));
    REQUIRE(report.ok());
    CHECK(report->equality.whole());
  }
}

TEST_CASE("a place sends its own rows alone") {
  const auto rows_sent = [](const std::string& strategy) {
    const Bundle bundle = compiled::bundle(kModel, strategy);
    int64_t bytes = 0;
    for (const auto& instruction : bundle.ranks[0].instructions.get())
      if (const auto* const exchange = std::get_if<AllToAll>(&instruction.action))
        bytes = std::max(bytes, exchange->bytes());
    return bytes;
  };
  // Without the places, each of two ranks has two samples' rows for either; here one of four has half of them.
  const std::string apart =
      "piper: 1\nmodel: {batch: 8}\noptimizer: {sgd: {lr: 0.1}}\nannotate: [{tag: EP, modules: "
      "[mixture]}]\ndirectives:\n"
      "  - {op: replicate, filter: {}, devices: [0, 1]}\n  - {op: shard, filter: {EP: \"*\"}, over: [[0, 1]]}\n";
  CHECK(rows_sent(apart) == 2 * rows_sent(kAll));
}

TEST_CASE("each exchange, gather and sum of whole experts over places is needed") {
  for (const std::string& strategy : {kAll, kOwn}) {
    const Bundle sound = compiled::bundle(kModel, strategy);
    const auto& instructions = sound.ranks[0].instructions.get();
    size_t tried = 0;
    for (size_t i = 0; i < instructions.size(); ++i) {
      if (communicator_of(instructions[i].action) < 0) continue;
      Bundle bundle = sound;
      for (RankPlan& plan : bundle.ranks) {
        auto& all = plan.instructions.edit();
        all.erase(all.begin() + static_cast<std::ptrdiff_t>(i));
      }
      INFO(strategy << "instruction " << i);
      CHECK_FALSE(verify::verify(bundle).ok());
      ++tried;
    }
    CHECK(tried >= 8);
  }
}

TEST_CASE("what whole experts over places compute is held to the model") {
  for (const std::string& strategy : {kAll, kOwn}) {
    INFO(strategy);
    const auto changed = [&](const std::string& kernel, const std::function<void(KernelCall&)>& change) {
      return compiled::verdict(kModel, strategy, [&](Bundle& bundle) { compiled::in_each(bundle, kernel, change); });
    };
    CHECK(changed("tanh", [](KernelCall& call) { call.kernel = "sigmoid"; }) == "P0641");
    CHECK(changed("tanh_backward", [](KernelCall& call) { call.kernel = "sigmoid_backward"; }) == "P0641");
    CHECK(changed("grouped_matmul", [](KernelCall& call) {
            auto* const transposed = find_attr<bool>(call, "transposed");
            REQUIRE(transposed != nullptr);
            *transposed = !*transposed;
          }).starts_with("P06"));
    CHECK(changed("grouped_matmul_weight", [](KernelCall& call) {
            std::swap(call.inputs[0], call.inputs[1]);
          }).starts_with("P06"));
  }
}

TEST_CASE("an expert's gradient that places have in common is no sum over samples alone") {
  Bundle bundle = compiled::bundle(kModel, kAll);
  size_t found = 0;
  for (Program& program : bundle.programs)
    for (Slot& slot : program.slots)
      if (slot.role == SlotRole::kGradient && slot.of == "mixture.up" && slot.cut >= 0) {
        slot.spread = plan::Spread::kSame;
        slot.cut = -1;
        ++found;
      }
  REQUIRE(found > 0);
  CHECK(verify::verify(bundle).error().code == "P0636");
}

TEST_CASE("a capacity bounds the rows of each place, in the reference as well") {
  for (const char* factor : {"0.3", "1", "1.25", "1.4"}) {  // some are rounded
    const auto report = verify::verify(
        compiled::bundle(kModel, over("[[0, 1, 2, 3]]", std::string(", capacity: {factor: ") + factor + "}")));
    INFO((report.ok() ? describe(report->equality) : report.error().message));
    REQUIRE(report.ok());
    CHECK(report->equality.whole());
  }
}
