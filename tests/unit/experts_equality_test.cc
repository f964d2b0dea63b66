// Rule 12 on experts that ranks share: sound plans are proved, and programs that compute something else are refused.
#include <catch2/catch.hpp>

#include <algorithm>
#include <functional>
#include <string>

#include "schemas/verify/verify.h"
#include "tests/unit/compiled_plans.h"

using namespace piper;
using namespace piper::plan;

namespace {

std::string sharing(const std::string& more, const std::string& microbatches = "2") {
  return "piper: 1\nmodel: {batch: 8}\nannotate: [{tag: EP, modules: [mixtures.0, mixtures.1]}]\ndirectives:\n" + more +
         "  - {op: split, num_microbatches: " + microbatches + "}\noptimizer: {sgd: {lr: 0.1}}\n";
}
const std::string kTwoRanks = sharing(
    "  - {op: replicate, filter: {}, devices: [0, 1]}\n"
    "  - {op: shard, filter: {EP: \"*\"}, devices: [0, 1]}\n");
const std::string kGroups = sharing(
    "  - {op: replicate, filter: {}, devices: [0, 1, 2, 3], shard_grads: true}\n"
    "  - {op: shard, filter: {EP: \"*\"}, devices: [[0, 1], [3, 2]]}\n",
    "1");

const std::string kOneEach = sharing(
    "  - {op: replicate, filter: {}, devices: [0, 1, 2, 3]}\n"
    "  - {op: shard, filter: {EP: \"*\"}, devices: [0, 1, 2, 3]}\n",
    "1");

Bundle experts(const std::string& strategy) { return compiled::bundle("tiny_experts.onnx", strategy); }

Program& program(Bundle& bundle, const std::string& name) {
  const auto found = std::find_if(bundle.programs.begin(), bundle.programs.end(),
                                  [&](const Program& one) { return one.name == name; });
  REQUIRE(found != bundle.programs.end());
  return *found;
}
KernelCall& call(Program& program, const std::string& kernel, size_t skip = 0) {
  for (KernelCall& one : program.calls)
    if (one.kernel == kernel && skip-- == 0) return one;
  FAIL("no " << kernel << " in " << program.name);
  return program.calls[0];
}
// The code of the refutation of what `change` makes of a sound plan, or how far that is proved.
std::string refusal(const std::function<void(Bundle&)>& change) {
  Bundle bundle = experts(kTwoRanks);
  change(bundle);
  const auto report = verify::verify(bundle);
  return report.ok() ? "accepted: " + describe(report->equality) : report.error().code;
}

}  // namespace

TEST_CASE("plans whose ranks share experts compute the model's gradients and loss") {
  for (const std::string& strategy : {kTwoRanks, kGroups}) {
    const auto report = verify::verify(experts(strategy));
    REQUIRE(report.ok());
    INFO(describe(report->equality));
    CHECK(report->equality.whole());
    CHECK(report->equality.proved == 13);
  }
}

// An axis of one place looks like any other, so what cannot be told apart is open.
TEST_CASE("plans whose ranks have one expert each are not refused") {
  const auto report = verify::verify(experts(kOneEach));
  REQUIRE(report.ok());
  CHECK(report->equality.looked);
}

TEST_CASE("programs of experts that compute something else are refused") {
  CHECK(refusal([](Bundle& b) {  // another function of the rows
          call(program(b, "EP0.experts.F.b2"), "tanh").kernel = "sigmoid";
        }) == "P0641");
  CHECK(refusal([](Bundle& b) {  // the derivative of another function
          call(program(b, "EP0.experts.B.b2"), "tanh_backward").kernel = "sigmoid_backward";
        }) == "P0641");
  CHECK(refusal([](Bundle& b) {  // combined by scores instead of routing weights
          Program& router = program(b, "EP0.F.b2");
          const Operand scores = call(router, "softmax").inputs[0];
          Operand& gate = call(router, "copy", 1).inputs[0];
          gate.slot = scores.slot;
          gate.offset = scores.offset;
        }) == "P0641");
  CHECK(refusal([](Bundle& b) {  // gradients of routing weights that experts of the ranks exchanged
          auto& strides = call(program(b, "EP0.B.b2"), "copy").inputs[0].strides;
          std::swap(strides[1], strides[2]);
        }) == "P0641");
  CHECK(refusal([](Bundle& b) {  // a gradient twice: rule 8
          Program& backward = program(b, "EP0.experts.B.b2");
          backward.calls.push_back(call(backward, "add_into"));
        }) == "P0636");
}

// Of a call that treats the experts of one rank differently no rule says what one device's call is: such a plan is not
// refused, and not called proved.
TEST_CASE("programs that tell the experts of one rank apart are left open") {
  const std::string open = "experts of one rank that are told apart from those of others";
  CHECK_THAT(refusal([](Bundle& b) {  // both experts of a rank by the weights of its first
               call(program(b, "EP0.experts.F.b2"), "matmul", 1).inputs[1].strides[0] = 0;
             }),
             Catch::Contains("proved in part") && Catch::Contains(open));
  CHECK_THAT(refusal([](Bundle& b) {  // gradients of both experts' weights by the rows of the first
               call(program(b, "EP0.experts.B.b2"), "matmul", 3).inputs[0].strides[0] = 0;
             }),
             Catch::Contains("proved in part") && Catch::Contains(open));
}
