// Rule 12 on plans that piperc makes of weights which are cut over places: all is proved, and programs and sums that
// were changed are refused.
#include <catch2/catch.hpp>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "schemas/verify/verify.h"
#include "tests/unit/compiled_plans.h"

using namespace piper;
using namespace piper::plan;

namespace {

std::string cutting(const std::string& ranks, const std::string& over, const std::string& more = "") {
  return "piper: 1\nmodel: {batch: 8}\noptimizer: {sgd: {lr: 0.1}}\ndirectives:\n"
         "  - {op: split, num_microbatches: 2}\n" +
         (ranks.empty() ? "" : "  - {op: replicate, filter: {}, devices: " + ranks + more + "}\n") +
         "  - {op: shard, filter: {}, dim: column, over: " + over + "}\n";
}
const std::string kPair = cutting("", "[[0, 1]]");
const std::string kFour = cutting("[0, 1, 2, 3]", "[[0, 1], [2, 3]]", ", shard_grads: true");

bool is_value_sum(const Bundle& bundle, const Action& action) {
  const auto* const sum = std::get_if<AllReduce>(&action);
  if (sum == nullptr) return false;
  const std::vector<int32_t>& group = bundle.manifest.cuts[0].groups[0];
  return bundle.ranks[0].communicators[static_cast<size_t>(sum->communicator)].ranks == group;
}

// What becomes of a sound plan of the GPT that is changed.
std::string verdict(const std::string& strategy, const std::function<void(Bundle&)>& change) {
  Bundle bundle = compiled::bundle("tiny_gpt.onnx", strategy);
  change(bundle);
  const auto report = verify::verify(bundle);
  return report.ok() ? "accepted: " + describe(report->equality) : report.error().code;
}
// Programs of which a parameter is cut, and those with shares.
std::vector<Program*> cut_programs(Bundle& bundle) {
  std::vector<Program*> found;
  for (Program& program : bundle.programs)
    if (program.of && std::any_of(program.slots.begin(), program.slots.end(), [](const Slot& s) { return s.cut >= 0; }))
      found.push_back(&program);
  return found;
}
void in_first(Bundle& bundle, const std::string& kernel, const std::function<void(KernelCall&)>& change) {
  for (Program* const program : cut_programs(bundle))
    for (KernelCall& call : program->calls)
      if (call.kernel == kernel) return change(call);
  FAIL("no " << kernel);
}

}  // namespace

TEST_CASE("plans whose weights are cut over places compute the model's gradients and loss") {
  for (const char* model : {"tiny_mlp.onnx", "tiny_gpt.onnx"})
    for (const std::string& strategy : {kPair, kFour}) {
      const auto report = verify::verify(compiled::bundle(model, strategy));
      INFO(strategy << (report.ok() ? describe(report->equality) : report.error().message));
      REQUIRE(report.ok());
      CHECK(report->equality.whole());
    }
}

TEST_CASE("programs on parts that compute something else are refused") {
  const auto changed = [](const std::string& kernel, const std::function<void(KernelCall&)>& change) {
    return verdict(kPair, [&](Bundle& bundle) { in_first(bundle, kernel, change); });
  };
  CHECK(verdict(kPair, [](Bundle&) {}).starts_with("accepted"));
  CHECK(changed("linear", [](KernelCall& call) { call.inputs[2] = {}; }) != "accepted");
  CHECK(changed("gelu", [](KernelCall& call) { call.kernel = "silu", call.attrs.clear(); }) == "P0641");
  CHECK(changed("linear_backward_weight", [](KernelCall& call) {
          call.outputs[0].strides = {1, call.outputs[0].shape[0]};  // columns for rows
        }).starts_with("P06"));
}

TEST_CASE("sums over places that are left out, or over other ranks, are refused") {
  // Each of them by itself, on all ranks.
  const auto each = [](const std::function<void(RankPlan&, size_t)>& change) {
    const Bundle sound = compiled::bundle("tiny_gpt.onnx", kFour);
    const auto& instructions = sound.ranks[0].instructions.get();
    size_t tried = 0;
    for (size_t i = 0; i < instructions.size(); ++i) {
      if (!is_value_sum(sound, instructions[i].action)) continue;
      Bundle bundle = sound;
      for (RankPlan& plan : bundle.ranks) change(plan, i);
      INFO("instruction " << i);
      CHECK_FALSE(verify::verify(bundle).ok());
      ++tried;
    }
    CHECK(tried >= 8);  // two blocks, each twice, forward and backward
  };
  each([](RankPlan& plan, size_t i) {
    auto& all = plan.instructions.edit();
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(i));
  });
  each([](RankPlan& plan, size_t i) {
    auto& sum = std::get<AllReduce>(plan.instructions.edit()[i].action);
    for (size_t c = 0; c < plan.communicators.size(); ++c)
      if (plan.communicators[c].ranks.size() == 2 && static_cast<int32_t>(c) != sum.communicator) {
        sum.communicator = static_cast<int32_t>(c);
        break;
      }
  });
}
