// Sequences of which each place has a part, in whole steps: plans are proved, and plans that add up shares over the
// wrong ranks, mix up places or say something else of what a place has are refuted.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <string>

#include "schemas/plan/actions.h"
#include "schemas/plan/attrs.h"
#include "schemas/verify/verify.h"
#include "tests/unit/compiled_plans.h"

namespace piper {
namespace {

using Catch::Contains;
using plan::Bundle;
using plan::RankPlan;

// Two replicas of two places.
std::string replicas(const std::string& more = "", const std::string& model = "") {
  return "piper: 1\nmodel: {batch: 16" + model +
         "}\noptimizer: {adamw: {lr: 0.001}}\nclip_grad_norm: 1.0\n"
         "directives:\n  - {op: split, num_microbatches: 2}\n  - {op: replicate, filter: {}, devices: [0, 1, 2, 3]" +
         more +
         "}\n  - {op: shard, filter: {}, dim: column, over: [[0, 1], [2, 3]]}\n"
         "  - {op: shard, filter: {}, dim: sequence, over: [[0, 1], [2, 3]]}\n";
}
// Two stages of two places.
std::string stages(const std::string& family, const std::string& more = "", const std::string& sequence = "") {
  return "piper: 1\nmodel: {batch: 16}\nannotate: [{tag: PP, starts: [wte, h.1]}]\noptimizer: {adamw: {lr: 0.001}}\n"
         "clip_grad_norm: 1.0\nschedule: {family: " +
         family + ", microbatches: 2, ranks: [[0, 1], [2, 3]]}\ndirectives:\n" + more +
         "  - {op: shard, filter: {}, dim: column, over: [[0, 1], [2, 3]]}\n"
         "  - {op: shard, filter: {}, dim: sequence, over: [[0, 1], [2, 3]]" +
         sequence + "}\n";
}

void check_proved(const std::string& model, const std::string& strategy) {
  INFO(strategy);
  const Bundle bundle = compiled::bundle(model, strategy);
  const auto report = verify::verify(bundle);
  INFO((report.ok() ? "" : report.error().code + " " + report.error().message));
  REQUIRE(report.ok());
  CHECK(verify::not_proved(report->equality).empty());
}

bool is_of(const RankPlan& plan, const plan::Instruction& one, const std::string& stream) {
  const int32_t c = plan::communicator_of(one.action);
  return c >= 0 && plan.communicators[static_cast<size_t>(c)].name.starts_with(stream);
}

// Instructions of a kind on the rank's stream of values, or of gradients.
template <class A>
int64_t number_of(const Bundle& bundle, const std::string& stream) {
  int64_t number = 0;
  for (const plan::Instruction& one : bundle.ranks[0].instructions.get())
    number += std::holds_alternative<A>(one.action) && is_of(bundle.ranks[0], one, stream);
  return number;
}

const Bundle& sound() {
  static const Bundle bundle = compiled::bundle("tiny_gpt.onnx", replicas());
  return bundle;
}
std::string verdict(const std::function<void(Bundle&)>& change) {
  Bundle bundle = sound();
  change(bundle);
  const auto report = verify::verify(bundle);
  return report.ok() ? "accepted" : report.error().code + " " + report.error().message;
}

const char* const kOneReplica =
    "piper: 1\nmodel: {batch: 16}\noptimizer: {sgd: {lr: 0.1}}\ndirectives:\n"
    "  - {op: shard, filter: {}, dim: column, over: [[0, 1]]}\n"
    "  - {op: shard, filter: {}, dim: sequence, over: [[0, 1]]}\n";

}  // namespace

TEST_CASE("plans that cut sequences are the model's step") {
  for (const char* zero : {"", ", shard_optimizer: true", ", shard_grads: true", ", shard_params: true",
                           ", shard_params: true, parts_over: [[0, 1], [2, 3]]"})
    check_proved("tiny_gpt.onnx", replicas(zero));
  for (const char* family : {"gpipe", "1f1b", "zero_bubble"}) check_proved("tiny_gpt.onnx", stages(family));
  check_proved("tiny_gpt.onnx", stages("1f1b", "  - {op: recompute, filter: {PP: 0}}\n"));
  check_proved("tiny_gpt_dropout.onnx", replicas("", ", dims: {S: 16}"));
}

TEST_CASE("values are gathered and scattered, and added up whole nowhere") {
  CHECK(number_of<plan::AllReduce>(sound(), "tp") == 0);
  CHECK(number_of<plan::AllGather>(sound(), "tp") > 0);
  CHECK(number_of<plan::ReduceScatter>(sound(), "tp") > 0);
}

TEST_CASE("a backward gathers again what the forward has gathered, unless it is kept") {
  const auto compiled = [](const std::string& gathered) {
    return compiled::bundle("tiny_gpt.onnx", stages("gpipe", "", gathered));
  };
  const Bundle again = compiled(""), kept = compiled(", gathered: kept");
  CHECK(verify::verify(kept).ok());
  // For each of two microbatches once more: for queries, keys and values, and for the first product of the MLP.
  CHECK(number_of<plan::AllGather>(again, "tp") == number_of<plan::AllGather>(kept, "tp") + 2 * 2);
  CHECK(again.ranks[0].arena_bytes < kept.ranks[0].arena_bytes);
}

TEST_CASE("dropouts are of parts, of sequences and of heads, and gather nothing") {
  Bundle bundle = compiled::bundle("tiny_gpt_dropout.onnx", replicas("", ", dims: {S: 16}"));
  const auto dropouts = [&](const auto& change) {
    size_t found = 0;
    for (plan::Program& program : bundle.programs)
      for (plan::KernelCall& call : program.calls)
        if (call.kernel == plan::Kernel::kDropout) change(call), ++found;
    return found;
  };
  CHECK(dropouts([](const plan::KernelCall& call) { CHECK(call.inputs.size() == 4); }) >= 6);
  // As many as without dropouts, of one layer less: two a microbatch for what it reads, two again in the backward, two
  // for gradients of its sums.
  CHECK(number_of<plan::AllGather>(bundle, "tp") + 2 * (2 + 2 + 2) ==
        number_of<plan::AllGather>(compiled::bundle("tiny_gpt.onnx", replicas()), "tp"));
  // Masks of other elements.
  for (const std::string name : {"row", "places"}) {
    bundle = compiled::bundle("tiny_gpt_dropout.onnx", replicas("", ", dims: {S: 16}"));
    dropouts([&](plan::KernelCall& call) { *plan::find_attr<int64_t>(call, name) *= 2; });
    const auto report = verify::verify(bundle);
    REQUIRE_FALSE(report.ok());
    CHECK(report.error().code == "P0641");
  }
  bundle = compiled::bundle("tiny_gpt_dropout.onnx", replicas("", ", dims: {S: 16}"));
  dropouts([&](plan::KernelCall& call) {
    call.inputs.pop_back();
    std::erase_if(call.attrs, [](const plan::Attr& attr) { return attr.name == "row" || attr.name == "places"; });
  });
  CHECK_FALSE(verify::verify(bundle).ok());
}

TEST_CASE("shares of gradients are added up over all places") {
  // For one replica: at each place is one addend of each sample.
  Bundle alone = compiled::bundle("tiny_gpt.onnx", kOneReplica);
  REQUIRE(verify::verify(alone).ok());
  for (RankPlan& plan : alone.ranks)
    std::erase_if(plan.instructions.edit(), [&](const plan::Instruction& one) {
      return std::holds_alternative<plan::AllReduce>(one.action) && is_of(plan, one, "dp_reduce");
    });
  const auto report = verify::verify(alone);
  REQUIRE_FALSE(report.ok());
  CHECK_THAT(report.error().code + " " + report.error().message,
             Contains("P0636") && Contains("the share of place ") && Contains("of samples 0 to 15 missing"));
  // What a slot of a gradient says of what is added to it.
  const auto say = [](plan::Spread from, plan::Spread to, int32_t cut) {
    return [=](Bundle& b) {
      for (plan::Program& program : b.programs)
        for (plan::Slot& slot : program.slots)
          if (slot.role == plan::SlotRole::kGradient && slot.spread == from && slot.of.find("ln") != std::string::npos)
            slot.spread = to, slot.cut = cut;
    };
  };
  CHECK_THAT(verdict(say(plan::Spread::kShare, plan::Spread::kSame, -1)),
             Contains("P0636") && Contains("more than once"));
}

TEST_CASE("parts are put together in the order of their places, shares added up by all of them") {
  const auto swapped = [](Bundle& b) {
    for (RankPlan& plan : b.ranks)
      for (plan::Communicator& c : plan.communicators)
        if (c.name.starts_with("tp")) std::swap(c.ranks[0], c.ranks[1]);
  };
  CHECK_THAT(verdict(swapped), Contains("P0636") && Contains("in this order"));
  const auto without = [](auto is) {
    return [=](Bundle& b) {
      for (RankPlan& plan : b.ranks)
        std::erase_if(plan.instructions.edit(), [&](const plan::Instruction& one) { return is(plan, one); });
    };
  };
  CHECK_THAT(verdict(without([&](const RankPlan& plan, const plan::Instruction& one) {
               return std::holds_alternative<plan::AllGather>(one.action) && is_of(plan, one, "tp");
             })),
             Contains("P06"));
  CHECK_THAT(verdict(without([&](const RankPlan& plan, const plan::Instruction& one) {
               return std::holds_alternative<plan::ReduceScatter>(one.action) && is_of(plan, one, "tp");
             })),
             Contains("P06"));
}

TEST_CASE("a place has its own part") {
  // For all places the number of another: rule 9.
  CHECK_THAT(verdict([](Bundle& b) {
               for (RankPlan& plan : b.ranks)
                 for (plan::ScalarValue& scalar : plan.scalars)
                   if (scalar.holds == plan::StepNumber::kPlace) scalar.values[0] = 1 - scalar.values[0];
             }),
             Contains("P0637") && Contains("place"));
  // A part that is said to be the whole, and the whole as a part.
  const auto say = [](plan::Spread from, plan::Spread to, int32_t cut) {
    return [=](Bundle& b) {
      for (plan::Program& program : b.programs)
        for (plan::Slot& slot : program.slots)
          if (slot.role == plan::SlotRole::kOutput && slot.spread == from) slot.spread = to, slot.cut = cut;
    };
  };
  CHECK_THAT(verdict(say(plan::Spread::kPart, plan::Spread::kSame, -1)), Contains("P06"));
  CHECK_THAT(verdict(say(plan::Spread::kPart, plan::Spread::kShare, 0)), Contains("P06"));
  CHECK_THAT(verdict(say(plan::Spread::kShare, plan::Spread::kPart, 0)), Contains("P06"));
}

}  // namespace piper
