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

// The same, whose experts two such groups share.
const std::string kShared =
    "piper: 1\nmodel: {batch: 8}\noptimizer: {sgd: {lr: 0.1}}\n"
    "annotate: [{tag: EP, modules: [mixtures.0, mixtures.1]}]\ndirectives:\n"
    "  - {op: replicate, filter: {}, devices: [0, 1, 2, 3]}\n"
    "  - {op: shard, filter: {}, dim: column, over: [[0, 1], [2, 3]], weights: [\"mixtures.*.up\"]}\n"
    "  - {op: shard, filter: {EP: \"*\"}, over: [[0, 2], [1, 3]]}\n";

// Dense experts with biases, whose rows are in parts along the sequence before them and after.
const std::string kDense =
    "piper: 1\nmodel: {batch: 8}\noptimizer: {sgd: {lr: 0.1}}\n"
    "annotate: [{tag: EP, modules: [mixture]}]\ndirectives:\n"
    "  - {op: replicate, filter: {}, devices: [0, 1, 2, 3]}\n"
    "  - {op: shard, filter: {}, dim: column, over: [[0, 1], [2, 3]], weights: [mixture.up]}\n"
    "  - {op: shard, filter: {}, dim: sequence, over: [[0, 1], [2, 3]]}\n"
    "  - {op: shard, filter: {EP: \"*\"}, over: [[0, 2], [1, 3]]}\n";

// Whether it adds up what places have of a value.
bool is_value_sum(const Bundle& bundle, const Action& action) {
  const auto* const sum = std::get_if<AllReduce>(&action);
  return sum != nullptr && bundle.ranks[0].communicators[static_cast<size_t>(sum->communicator)].ranks ==
                               bundle.manifest.cuts[0].groups[0];
}

}  // namespace

TEST_CASE("columns of experts are cut, and what they make is the model's") {
  for (const std::string& strategy : {kCut, kShared}) {
    const Bundle bundle = compiled::bundle("tiny_routed.onnx", strategy);
    std::vector<std::string> cut;
    for (const TensorInfo& tensor : bundle.manifest.tensors)
      if (tensor.cut) cut.push_back(tensor.name + " " + std::to_string(tensor.cut->axis));
    std::sort(cut.begin(), cut.end());
    CHECK(cut ==
          std::vector<std::string>{"mixtures.0.down 1", "mixtures.0.up 2", "mixtures.1.down 1", "mixtures.1.up 2"});
    const auto report = verify::verify(bundle);
    INFO(strategy << (report.ok() ? describe(report->equality) : report.error().message));
    REQUIRE(report.ok());
    CHECK(report->equality.whole());
  }
}

TEST_CASE("columns of dense experts are cut with their biases, beside the sequence and the experts") {
  const Bundle bundle = compiled::bundle("tiny_stacked.onnx", kDense);
  std::vector<std::string> cut;
  for (const TensorInfo& tensor : bundle.manifest.tensors)
    if (tensor.cut) cut.push_back(tensor.name + " " + std::to_string(tensor.cut->axis));
  std::sort(cut.begin(), cut.end());
  CHECK(cut == std::vector<std::string>{"mixture.down 1", "mixture.up 2", "mixture.up_bias 1"});
  const auto report = verify::verify(bundle);
  INFO((report.ok() ? describe(report->equality) : report.error().message));
  REQUIRE(report.ok());
  CHECK(report->equality.whole());
}

TEST_CASE("matrices of dense experts that a product reads as one are cut expert by expert") {
  const std::string strategy =
      "piper: 1\nmodel: {batch: 8}\noptimizer: {sgd: {lr: 0.1}}\n"
      "annotate: [{tag: EP, modules: [mixtures.0, mixtures.1]}]\ndirectives:\n"
      "  - {op: replicate, filter: {}, devices: [0, 1, 2, 3]}\n"
      "  - {op: shard, filter: {}, dim: column, over: [[0, 1], [2, 3]], weights: [\"mixtures.*.up\"]}\n"
      "  - {op: shard, filter: {EP: \"*\"}, over: [[0, 2], [1, 3]]}\n";
  const Bundle sound = compiled::bundle("tiny_experts.onnx", strategy);
  for (const TensorInfo& tensor : sound.manifest.tensors) {
    const bool of_experts = tensor.name.ends_with(".up") || tensor.name.ends_with(".down");
    INFO(tensor.name);
    REQUIRE(tensor.cut.has_value() == of_experts);
    if (of_experts) CHECK(tensor.cut->axis == (tensor.name.ends_with(".up") ? 2 : 1));
    if (of_experts) CHECK(tensor.cut->segments == 1);
  }
  const auto report = verify::verify(sound);
  INFO((report.ok() ? describe(report->equality) : report.error().message));
  REQUIRE(report.ok());
  CHECK(report->equality.whole());
  for (const auto& [kernel, other] : {std::pair("tanh", "sigmoid"), std::pair("tanh_backward", "sigmoid_backward")}) {
    Bundle bundle = sound;
    compiled::in_each(bundle, kernel, [&, other = other](KernelCall& call) { call.kernel = other; });
    const auto refuted = verify::verify(bundle);
    REQUIRE_FALSE(refuted.ok());
    CHECK(refuted.error().code == "P0641");
  }
}

TEST_CASE("what dense experts make of parts of their columns is held to the model") {
  const auto changed = [](const std::string& kernel, const std::function<void(KernelCall&)>& change) {
    Bundle bundle = compiled::bundle("tiny_stacked.onnx", kDense);
    compiled::in_each(bundle, kernel, change);
    const auto report = verify::verify(bundle);
    return report.ok() ? "accepted: " + describe(report->equality) : report.error().code;
  };
  CHECK(changed("silu", [](KernelCall& call) { call.kernel = "sigmoid"; }) == "P0641");
  CHECK(changed("silu_backward", [](KernelCall& call) { call.kernel = "sigmoid_backward"; }) == "P0641");
  CHECK(changed("softmax", [](KernelCall& call) { call.kernel = "log_softmax"; }) == "P0641");
}

TEST_CASE("each sum of what experts make, and of the gradients of router and rows, is needed") {
  for (const std::string& strategy : {kCut, kShared}) {
    const Bundle sound = compiled::bundle("tiny_routed.onnx", strategy);
    const auto& instructions = sound.ranks[0].instructions.get();
    size_t tried = 0;
    for (size_t i = 0; i < instructions.size(); ++i) {
      if (!is_value_sum(sound, instructions[i].action)) continue;
      Bundle bundle = sound;
      for (RankPlan& plan : bundle.ranks) {
        auto& all = plan.instructions.edit();
        all.erase(all.begin() + static_cast<std::ptrdiff_t>(i));
      }
      INFO(strategy << "instruction " << i);
      CHECK_FALSE(verify::verify(bundle).ok());
      ++tried;
    }
    CHECK(tried >= 6);  // two mixtures: what is made, the gradients of rows, and those of the router
  }
}

TEST_CASE("products of parts by groups that are others are refused") {
  for (const std::string& strategy : {kCut, kShared}) {
    INFO(strategy);
    CHECK(compiled::verdict("tiny_routed.onnx", strategy, [](Bundle& bundle) {
            compiled::in_each(bundle, "grouped_matmul", [](KernelCall& call) {
              auto* const transposed = find_attr<bool>(call, "transposed");
              REQUIRE(transposed != nullptr);
              *transposed = !*transposed;
            });
          }).starts_with("P06"));
    CHECK(compiled::verdict("tiny_routed.onnx", strategy, [](Bundle& bundle) {
            compiled::in_each(bundle, "grouped_matmul_weight",
                              [](KernelCall& call) { std::swap(call.inputs[0], call.inputs[1]); });
          }).starts_with("P06"));
  }
}

TEST_CASE("what ranks that share experts make of their places' parts is held to the model") {
  const auto changed = [](const std::string& kernel, const std::function<void(KernelCall&)>& change) {
    return compiled::verdict("tiny_routed.onnx", kShared,
                             [&](Bundle& bundle) { compiled::in_each(bundle, kernel, change); });
  };
  REQUIRE(compiled::verdict("tiny_routed.onnx", kShared, [](Bundle&) {}).starts_with("accepted"));
  CHECK(changed("tanh", [](KernelCall& call) { call.kernel = "sigmoid"; }) == "P0641");
  CHECK(changed("tanh_backward", [](KernelCall& call) { call.kernel = "sigmoid_backward"; }) == "P0641");
  // An expert's matrix for the other's.
  CHECK(changed("grouped_matmul", [](KernelCall& call) {
          Operand& matrices = call.inputs[1];
          matrices.offset += (matrices.shape[0] - 1) * matrices.strides[0] * 4;
          matrices.strides[0] = -matrices.strides[0];
        }).starts_with("P06"));
}
