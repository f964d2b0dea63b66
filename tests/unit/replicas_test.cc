// The proof of plans for many replicas: it looks at one rank of a kind, and follows one replica, and finds what is
// wrong with any of the others.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <string>

#include "schemas/plan/like_ranks.h"
#include "schemas/verify/buffer_slots.h"
#include "schemas/verify/deadlock.h"
#include "schemas/verify/fold_ranks.h"
#include "schemas/verify/match.h"
#include "schemas/verify/verify.h"
#include "tests/unit/compiled_plans.h"

namespace piper {
namespace {

using plan::Bundle;

// Two stages, each on four replicas: rank 2 r has the first stage of replica r, rank 2 r + 1 the second.
Bundle four_replicas(const std::string& more = "", const std::string& model = "tiny_gpt.onnx",
                     const std::string& dims = "", const std::string& second = "h.1") {
  const auto stage = [&](int index, const std::string& devices) {
    const std::string filter = "{PP: " + std::to_string(index) + "}";
    return "  - {op: place, filter: " + filter + ", devices: " + devices + "}\n  - {op: replicate, filter: " + filter +
           ", devices: " + devices + more + "}\n";
  };
  return compiled::bundle(model, "model: {batch: 256" + dims + "}\nannotate: [{tag: PP, starts: [wte, " + second +
                                     "]}]\n"
                                     "optimizer: {adamw: {lr: 0.001}}\nschedule: {family: 1f1b, microbatches: 64}\n"
                                     "directives:\n" +
                                     stage(0, "[0, 2, 4, 6]") + stage(1, "[1, 3, 5, 7]"));
}

// Four replicas of the whole model.
Bundle alone(const std::string& more) {
  return compiled::bundle("tiny_gpt.onnx",
                          "model: {batch: 256}\noptimizer: {adamw: {lr: 0.001}}\ndirectives:\n"
                          "  - {op: replicate, filter: {}, devices: [0, 1, 2, 3]" +
                              more + "}\n  - {op: split, filter: {}, num_microbatches: 64}\n");
}

std::string refutation(const Bundle& sound, const std::function<void(Bundle&)>& change) {
  Bundle bundle = sound;
  change(bundle);
  REQUIRE(plan::like_ranks(bundle) == plan::like_ranks(sound));  // nothing that ranks share was changed
  const auto report = verify::verify(bundle);
  return report.ok() ? "accepted" : report.error().code + " " + report.error().message;
}

plan::InputSlice& input(Bundle& bundle, size_t rank, size_t microbatch) {
  auto& inputs = bundle.ranks[rank].inputs;
  const std::string first = inputs.at(0).input;
  for (auto& slice : inputs)
    if (slice.input == first && microbatch-- == 0) return slice;
  FAIL("no such microbatch");
  return inputs.front();
}

}  // namespace

TEST_CASE("one rank of a kind meets one of each other kind") {
  const Bundle bundle = four_replicas();
  const auto folded = verify::fold_ranks(bundle);
  REQUIRE(folded);
  CHECK(folded->num_ranks == std::vector<int64_t>{4, 4});
  const auto all = verify::match(bundle), few = verify::match(folded->bundle);
  REQUIRE(all.ok());
  REQUIRE(few.ok());
  CHECK(folded->num_messages == all->num_messages);
  CHECK(folded->num_collectives == all->num_collectives);
  CHECK(4 * few->num_messages == all->num_messages);
  CHECK(verify::check_deadlock(folded->bundle, *few, verify::Level::kIssueOrder).ok());
}

TEST_CASE("ranks that do the same work and meet other kinds are of other kinds") {
  const Bundle bundle = compiled::clipped_replicas_of_places();
  CHECK(plan::like_ranks(bundle) == std::vector<int32_t>{-1, -1, -1, 2, 2, 2, 2, 2});
  const auto folded = verify::fold_ranks(bundle);
  REQUIRE(folded);
  CHECK(folded->num_ranks == std::vector<int64_t>{1, 1, 3, 3});
  CHECK(folded->kind_of == std::vector<int32_t>{0, 1, 2, 3, 2, 3, 2, 3});
  const auto all = verify::match(bundle), few = verify::match(folded->bundle);
  REQUIRE(all.ok());
  REQUIRE(few.ok());
  CHECK(folded->num_collectives == all->num_collectives);
  CHECK(verify::check_deadlock(folded->bundle, *few, verify::Level::kIssueOrder).ok());
  // The caller knows of something else that tells them apart.
  const auto apart = verify::fold_ranks(bundle, {0, 0, 0, 0, 0, 0, 1, 1});
  REQUIRE(apart);
  CHECK(apart->num_ranks == std::vector<int64_t>{1, 1, 2, 2, 1, 1});
}

TEST_CASE("ranks are not folded where an end leads here and there") {
  const Bundle sound = four_replicas();
  Bundle some = sound;
  some.ranks.pop_back();
  CHECK(!verify::fold_ranks(some));
  // Rank 4 sends to the peer of rank 2: its channel leads to no end that leads back.
  Bundle astray = sound;
  for (plan::Channel& channel : astray.ranks[4].channels) channel.peer = 3;
  CHECK(!verify::fold_ranks(astray));
  // A member that calls its communicator otherwise.
  Bundle renamed = sound;
  REQUIRE(!renamed.ranks[4].communicators.empty());
  std::swap(renamed.ranks[4].communicators[0].ranks[0], renamed.ranks[4].communicators[0].ranks[1]);
  CHECK(!verify::fold_ranks(renamed));
  CHECK(!verify::fold_ranks(
      compiled::bundle("tiny_gpt.onnx", "model: {batch: 4}\noptimizer: {adamw: {lr: 0.001}}\ndirectives: []\n")));
}

TEST_CASE("a wait in vain of all ranks of a kind is refuted by the bundle itself") {
  Bundle bundle = four_replicas();
  auto& instructions = bundle.ranks[0].instructions.edit();
  const auto record = std::find_if(instructions.begin(), instructions.end(), [](const plan::Instruction& one) {
    return std::holds_alternative<plan::Record>(one.action);
  });
  REQUIRE(record != instructions.end());
  plan::Instruction wait = *record;
  wait.action = plan::Wait{std::get<plan::Record>(record->action).event};
  instructions.insert(record, wait);
  for (const size_t rank : {2, 4, 6}) bundle.ranks[rank].instructions = bundle.ranks[0].instructions;
  REQUIRE(verify::fold_ranks(bundle));
  const auto report = verify::verify(bundle);
  REQUIRE(!report.ok());
  CHECK(report.error().code == "P0632");
  CHECK(report.error().message.find(bundle.provenance[static_cast<size_t>(wait.provenance)].key) != std::string::npos);
}

TEST_CASE("buffers that are in use at one time have slots of their own") {
  const Bundle bundle = four_replicas();
  const plan::RankPlan& plan = bundle.ranks[0];
  const std::vector<const plan::RankPlan*> alike = {&plan};
  const verify::BufferSlots slots = verify::buffer_slots(plan, alike, bundle.manifest);
  CHECK(static_cast<size_t>(slots.count) * 2 < plan.buffers.size());
  std::vector<size_t> first(plan.buffers.size(), plan.instructions.size()), last(plan.buffers.size(), 0);
  for (size_t i = 0; i < plan.instructions.size(); ++i)
    verify::each_buffer(plan, plan.instructions[i].action, [&](int32_t b) {
      first[static_cast<size_t>(b)] = std::min(first[static_cast<size_t>(b)], i);
      last[static_cast<size_t>(b)] = i;
    });
  for (size_t a = 0; a < plan.buffers.size(); ++a)
    for (size_t b = 0; b < a; ++b)
      if (slots.slot_of[a] == slots.slot_of[b]) {
        CHECK(plan.buffers[a].cls == plan::BufferClass::kArena);
        CHECK((last[a] < first[b] || last[b] < first[a] || first[a] > last[a] || first[b] > last[b]));
      }
}

TEST_CASE("one replica is followed for all") {
  const auto staged = verify::verify(four_replicas());
  REQUIRE(staged.ok());
  CHECK(staged->replicas == 4);
  // Those that each have a part of the optimizer's state, too.
  for (const std::string level : {", shard_optimizer: true", ", shard_optimizer: true, shard_grads: true"}) {
    INFO(level);
    const auto report = verify::verify(alone(level));
    REQUIRE(report.ok());
    CHECK(report->replicas == (level.size() < 30 ? 4 : 1));  // gradients' parts are added up in every microbatch
  }
}

// What they stop at are own argument lists, and buffers that hold their own parts.
TEST_CASE("what is wrong with one replica's part is found") {
  const Bundle sound = alone(", shard_optimizer: true");
  REQUIRE(!sound.ranks[2].arguments.own().empty());
  CHECK_THAT(refutation(sound,
                        [](Bundle& b) {
                          const auto own = b.ranks[2].arguments.own()[0];
                          b.ranks[3].arguments.set_own(own.index, own.list);
                        }),
             Catch::Contains("P0636"));
  CHECK_THAT(refutation(sound,
                        [](Bundle& b) {
                          for (plan::Placement& placement : b.ranks[2].placements)
                            if (placement.kind == plan::PlacementKind::kFirstMoment) placement.part.owner = false;
                        }),
             Catch::Contains("P0638"));
}

// Replicas are followed by themselves from where they differ, so what one of them has in common with none is found.
TEST_CASE("what is wrong with one replica is found") {
  const Bundle sound = four_replicas();
  CHECK(verify::verify(sound).ok());
  // Rank 4 takes the samples of another microbatch twice.
  CHECK_THAT(refutation(sound, [](Bundle& b) { input(b, 4, 2).first = input(b, 4, 3).first; }), Catch::Contains("P06"));
  // It takes those of another replica, in all microbatches and on both stages, so that it goes on like the others.
  CHECK_THAT(refutation(sound,
                        [](Bundle& b) {
                          for (const size_t rank : {4, 5}) b.ranks[rank].inputs = b.ranks[rank - 2].inputs;
                        }),
             Catch::Contains("P0636"));
  // Two replicas' first stages send to each other's second, whose labels are of other samples.
  CHECK_THAT(refutation(sound,
                        [](Bundle& b) {
                          for (plan::Channel& channel : b.ranks[2].channels) channel.peer = 5;
                          for (plan::Channel& channel : b.ranks[4].channels) channel.peer = 3;
                          for (plan::Channel& channel : b.ranks[3].channels) channel.peer = 4;
                          for (plan::Channel& channel : b.ranks[5].channels) channel.peer = 2;
                        }),
             Catch::Contains("P06"));
  // One of them has a parameter from another element on.
  CHECK_THAT(refutation(sound,
                        [](Bundle& b) {
                          for (plan::Placement& placement : b.ranks[6].placements)
                            if (placement.kind == plan::PlacementKind::kValue) {
                              placement.part.first += 1;
                              return;
                            }
                        }),
             Catch::Contains("P06"));
}

TEST_CASE("each replica draws its dropouts for its own samples") {
  const Bundle sound = four_replicas("", "tiny_gpt_dropout.onnx", ", dims: {S: 8}", "h.0.ln2");
  const auto report = verify::verify(sound);
  REQUIRE(report.ok());
  CHECK(report->replicas == 4);
  REQUIRE(!sound.ranks[4].scalars.empty());
  CHECK_THAT(refutation(sound, [](Bundle& b) { b.ranks[4].scalars[3].values[0] += 1; }),
             Catch::Contains("draws its dropout for another sample"));
}

}  // namespace piper
