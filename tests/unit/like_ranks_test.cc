// Which ranks of compiled plans do the same work, and that a bundle says so once.
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "schemas/plan/bundle_files.h"
#include "schemas/plan/bundle_io.h"
#include "schemas/plan/like_ranks.h"
#include "schemas/verify/verify.h"
#include "tests/unit/compiled_plans.h"
#include "tests/unit/temp_folder.h"

namespace piper {
namespace {

using Like = std::vector<int32_t>;

std::string two_stages(const std::string& first, const std::string& second, const std::string& more = "",
                       const std::string& dims = "", const std::string& cut = "h.1") {
  return "model: {batch: 16" + dims + "}\nannotate: [{tag: PP, starts: [wte, " + cut +
         "]}]\noptimizer: {adamw: {lr: 0.001}}\n"
         "schedule: {family: 1f1b, microbatches: 2}\ndirectives:\n"
         "  - {op: place, filter: {PP: 0}, devices: " +
         first + "}\n  - {op: replicate, filter: {PP: 0}, devices: " + first + more +
         "}\n"
         "  - {op: place, filter: {PP: 1}, devices: " +
         second + "}\n  - {op: replicate, filter: {PP: 1}, devices: " + second + more + "}\n";
}

std::string four_replicas(const std::string& more) {
  return "model: {batch: 16}\noptimizer: {adamw: {lr: 0.001}}\ndirectives:\n"
         "  - {op: replicate, filter: {}, devices: [0, 1, 2, 3]" +
         more + "}\n";
}

std::string full_text(const plan::Bundle& bundle, size_t i) {
  return plan::print_rank_plan(bundle.ranks[i], bundle.provenance, bundle.programs);
}

const plan::Channel& channel(const plan::RankPlan& plan, const std::string& name) {
  for (const plan::Channel& channel : plan.channels)
    if (channel.name == name) return channel;
  FAIL("no channel " << name);
  return plan.channels.front();
}

}  // namespace

TEST_CASE("replicas of a stage do the same work for other peers, samples and owners") {
  const plan::Bundle bundle =
      compiled::bundle("tiny_gpt_dropout.onnx", two_stages("[0, 1]", "[2, 3]", "", ", dims: {S: 8}", "h.0.ln2"));
  REQUIRE(plan::like_ranks(bundle) == Like{-1, 0, -1, 2});
  CHECK(verify::verify(bundle).ok());
  CHECK(channel(bundle.ranks[0], "pp:0,1>2,3").peer == 2);
  CHECK(channel(bundle.ranks[1], "pp:0,1>2,3").peer == 3);
  CHECK(channel(bundle.ranks[3], "loss:2,3>0,1").peer == 1);
  REQUIRE(!bundle.ranks[0].inputs.empty());
  REQUIRE(!bundle.ranks[0].scalars.empty());  // where its dropouts begin to draw
  for (size_t i = 0; i < bundle.ranks[0].inputs.size(); ++i)
    CHECK(bundle.ranks[1].inputs[i].first == bundle.ranks[0].inputs[i].first + bundle.ranks[0].inputs[i].count);
  for (size_t i = 0; i < bundle.ranks[0].scalars.size(); ++i)
    CHECK(bundle.ranks[1].scalars[i].values[0] == bundle.ranks[0].scalars[i].values[0] + 4);
  for (int32_t rank : {0, 1})
    for (const plan::Placement& placement : bundle.ranks[static_cast<size_t>(rank)].placements)
      if (placement.kind != plan::PlacementKind::kConstant) CHECK(placement.part.owner == (rank == 0));
}

TEST_CASE("teams side by side are called alike, groups of other sizes by their ranks") {
  const plan::Bundle equal = compiled::bundle("tiny_gpt.onnx", two_stages("[0, 2, 4, 6]", "[1, 3, 5, 7]"));
  CHECK(plan::like_ranks(equal) == Like{-1, -1, 0, 1, 0, 1, 0, 1});
  const plan::Bundle unequal = compiled::bundle("tiny_gpt.onnx", two_stages("[0]", "[1, 2]"));
  CHECK(plan::like_ranks(unequal) == Like{-1, -1, -1});
  CHECK(channel(unequal.ranks[0], "pp:0>2").peer == 2);
}

// What they divide is the optimizer's work: the updates of one of them name its own parts.
TEST_CASE("replicas that update different parts of equal size do the same work") {
  for (const std::string level : {", shard_optimizer: true", ", shard_optimizer: true, shard_grads: true",
                                  ", shard_optimizer: true, shard_grads: true, shard_params: true"}) {
    INFO(level);
    plan::Bundle bundle = compiled::bundle("tiny_gpt.onnx", four_replicas(level));
    const Like like = plan::like_ranks(bundle);
    CHECK(like == Like{-1, 0, 0, 0});
    REQUIRE(verify::verify(bundle).ok());
    if (level == ", shard_optimizer: true") CHECK(!bundle.ranks[1].arguments.own().empty());
    const TempFolder folder;
    bundle.manifest.proved = 0;  // without constants, less is
    REQUIRE(plan::write_bundle(folder / "a", bundle, {}, {}, plan::WeightMode::kNone).ok());
    auto read = plan::read_bundle(folder / "a");
    REQUIRE(read.ok());
    CHECK(plan::like_ranks(*read) == like);
    CHECK(verify::verify(*read).ok());
    for (size_t rank = 0; rank < 4; ++rank) CHECK(full_text(*read, rank) == full_text(bundle, rank));
    REQUIRE(plan::write_bundle(folder / "b", *read, {}, {}, plan::WeightMode::kNone).ok());
    CHECK(plan::open_bundle(folder / "a")->digest == plan::open_bundle(folder / "b")->digest);
  }
}

// A rank that updates another's part once more leaves its own as it was; one whose part is written twice at a time
// races.
TEST_CASE("plans alike are refuted by the argument lists of any of them") {
  const plan::Bundle bundle = compiled::bundle("tiny_gpt.onnx", four_replicas(", shard_optimizer: true"));
  REQUIRE(!bundle.ranks[1].arguments.own().empty());
  const auto own = bundle.ranks[1].arguments.own()[0];
  plan::Bundle changed = bundle;
  changed.ranks[1].arguments.set_own(own.index, bundle.ranks[0].arguments[own.index]);
  REQUIRE(plan::like_ranks(changed) == plan::like_ranks(bundle));
  CHECK(!verify::verify(changed).ok());
  // The gradient where the parameter is: slots of one run that overlap.
  changed = bundle;
  plan::ArgumentList list = own.list;
  list.arguments[1] = list.arguments[0];
  changed.ranks[1].arguments.set_own(own.index, list);
  const auto verdict = verify::verify(changed);
  REQUIRE(!verdict.ok());
  CHECK(verdict.error().code == "P0635");
}

TEST_CASE("stages that send the parts of a tied gradient to each other are kinds of their own by position") {
  const plan::Bundle bundle =
      compiled::bundle("tiny_gpt.onnx", two_stages("[0, 1]", "[2, 3]", ", shard_optimizer: true"));
  CHECK(plan::like_ranks(bundle) == Like{-1, -1, -1, -1});
  CHECK(verify::verify(bundle).ok());
}

TEST_CASE("replicas that measure their parts of a clipped gradient are alike") {
  for (const char* const level : {", shard_optimizer: true", ", shard_grads: true", ", shard_params: true"}) {
    const plan::Bundle bundle = compiled::bundle("tiny_gpt.onnx", four_replicas(level) + "clip_grad_norm: 1.0\n");
    CHECK(plan::like_ranks(bundle) == Like{-1, 0, 0, 0});
    CHECK(verify::verify(bundle).ok());
  }
}

TEST_CASE("replicas that measure gradients of groups are proved; their parts of small buckets lie at other places") {
  const std::string text = four_replicas(", shard_optimizer: true") + "clip_grad_norm: 1.0\n";
  const std::string rate = "{lr: 0.001}";
  const plan::Bundle bundle = compiled::bundle(
      "tiny_gpt.onnx", std::string(text).replace(text.find(rate), rate.size(), "{lr: 0.001, no_decay: [\"*.ln*\"]}"));
  REQUIRE(bundle.manifest.optimizer.groups.size() > 1);
  CHECK(bundle.ranks[0].grad_squares.buffer >= 0);
  CHECK(verify::verify(bundle).ok());
}

TEST_CASE("a rank alone reads as it does among all, and a bundle writes again as it was") {
  plan::Bundle bundle =
      compiled::bundle("tiny_gpt_dropout.onnx", two_stages("[0, 1]", "[2, 3]", "", ", dims: {S: 8}", "h.0.ln2"));
  const TempFolder folder;
  REQUIRE(plan::write_bundle(folder / "a", bundle, {}, {}, plan::WeightMode::kNone).ok());
  const auto size = [&](int32_t rank) {
    return std::filesystem::file_size(folder / "a" + "/" + plan::rank_file(rank));
  };
  CHECK(4 * size(1) < size(0));
  auto all = plan::read_bundle(folder / "a");
  REQUIRE(all.ok());
  for (int32_t rank = 0; rank < 4; ++rank) {
    const auto one = plan::read_bundle(folder / "a", {rank});
    REQUIRE(one.ok());
    REQUIRE(one->ranks.size() == 1);
    CHECK(full_text(*one, 0) == full_text(*all, static_cast<size_t>(rank)));
    CHECK(full_text(*one, 0) == full_text(bundle, static_cast<size_t>(rank)));
  }
  REQUIRE(plan::write_bundle(folder / "b", *all, {}, {}, plan::WeightMode::kNone).ok());
  CHECK(plan::open_bundle(folder / "a")->digest == plan::open_bundle(folder / "b")->digest);
}

}  // namespace piper
