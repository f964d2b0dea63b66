// Experts whose columns are cut over places: what rows of experts make travels as shares, is added up once after the
// experts of a token, and the router has its whole gradient.
#include <catch2/catch.hpp>

#include <algorithm>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "schemas/plan/attrs.h"
#include "schemas/verify/verify.h"
#include "tests/unit/compiled_plans.h"

using namespace piper;
using namespace piper::plan;

namespace {

const std::string kCut =
    "piper: 1\nmodel: {batch: 8}\noptimizer: {sgd: {lr: 0.1}}\ndirectives:\n"
    "  - {op: shard, filter: {}, dim: column, over: [[0, 1]], weights: [\"mixtures.*.up\"]}\n";

// What becomes of a sound plan that is changed.
std::string verdict(const std::function<void(Bundle&)>& change) {
  Bundle bundle = compiled::bundle("tiny_routed.onnx", kCut);
  change(bundle);
  const auto report = verify::verify(bundle);
  return report.ok() ? "accepted: " + describe(report->equality) : report.error().code;
}
void in_each(Bundle& bundle, const std::string& kernel, const std::function<void(KernelCall&)>& change) {
  size_t found = 0;
  for (Program& program : bundle.programs)
    for (KernelCall& call : program.calls)
      if (call.kernel == kernel) change(call), ++found;
  REQUIRE(found > 0);
}
bool is_value_sum(const Action& action) { return std::holds_alternative<AllReduce>(action); }

}  // namespace

TEST_CASE("columns of experts are cut, and what they make is the model's") {
  const Bundle bundle = compiled::bundle("tiny_routed.onnx", kCut);
  std::vector<std::string> cut;
  for (const TensorInfo& tensor : bundle.manifest.tensors)
    if (tensor.cut) cut.push_back(tensor.name + " " + std::to_string(tensor.cut->axis));
  std::sort(cut.begin(), cut.end());
  CHECK(cut ==
        std::vector<std::string>{"mixtures.0.down 1", "mixtures.0.up 2", "mixtures.1.down 1", "mixtures.1.up 2"});
  const auto report = verify::verify(bundle);
  REQUIRE(report.ok());
  CHECK(report->equality.whole());
}

TEST_CASE("each sum of what experts make, and of the gradients of router and rows, is needed") {
  const Bundle sound = compiled::bundle("tiny_routed.onnx", kCut);
  const auto& instructions = sound.ranks[0].instructions.get();
  size_t tried = 0;
  for (size_t i = 0; i < instructions.size(); ++i) {
    if (!is_value_sum(instructions[i].action)) continue;
    Bundle bundle = sound;
    for (RankPlan& plan : bundle.ranks) {
      auto& all = plan.instructions.edit();
      all.erase(all.begin() + static_cast<std::ptrdiff_t>(i));
    }
    INFO("instruction " << i);
    CHECK_FALSE(verify::verify(bundle).ok());
    ++tried;
  }
  CHECK(tried >= 6);  // two mixtures: what is made, the gradients of rows, and those of the router
}

TEST_CASE("products of parts by groups that are others are refused") {
  CHECK(verdict([](Bundle& bundle) {
          in_each(bundle, "grouped_matmul", [](KernelCall& call) {
            auto* const transposed = find_attr<bool>(call, "transposed");
            REQUIRE(transposed != nullptr);
            *transposed = !*transposed;
          });
        }).starts_with("P06"));
  CHECK(verdict([](Bundle& bundle) {
          in_each(bundle, "grouped_matmul_weight", [](KernelCall& call) { std::swap(call.inputs[0], call.inputs[1]); });
        }).starts_with("P06"));
}
