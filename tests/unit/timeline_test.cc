// The event simulation: shares of resources, transfers and what each stream does when.
#include <algorithm>
#include <catch2/catch.hpp>

#include "schemas/plan/link_port.h"
#include "schemas/timeline/fair_shares.h"
#include "schemas/timeline/play.h"
#include "schemas/timeline/stages.h"
#include "tests/unit/plan_bundle_example.h"

namespace piper::timeline {
namespace {

// Runs take 10. A message takes 4 where it has its link, the one resource, alone.
class SharedLink : public Pricing {
 public:
  size_t resources() const override { return 1; }
  Task local(size_t, size_t) const override { return {10, 0}; }
  Task transfer(std::span<const TransferEnd>) const override { return {0, 4, {{0, 1}}}; }
};

Timeline played(const plan::Bundle& bundle, const Pricing& pricing) {
  const auto matching = verify::match(bundle);
  REQUIRE(matching.ok());
  return play(bundle, *matching, pricing);
}

}  // namespace

// A tag keeps its index, whatever letters and digits it has.
TEST_CASE("stages are told apart by fields, not by the letters of chunks") {
  plan::Bundle bundle = plan::example::pipeline(4, 2, true);
  for (plan::Chunk& chunk : bundle.manifest.chunks) {
    chunk.tags[0].tag = "L2";
    chunk.name = "any" + std::to_string(chunk.tags[0].index);
  }
  bundle.manifest.chunks[3].tags.push_back({"EP", 1});  // not in all chunks
  const Stages stages(bundle);
  CHECK(stages.stage_of(3) == "L2:3");
  CHECK(stages.stage_of(0) == "L2:0");
  CHECK(stages.pieces_of(3, plan::Pass::kBackward) == 1);
  // Untagged pieces of a region are one stage, and share its time.
  for (plan::Chunk& chunk : bundle.manifest.chunks) {
    chunk.tags.clear();
    chunk.region = "all";
  }
  const Stages whole(bundle);
  CHECK(whole.stage_of(2) == "all");
  CHECK(whole.pieces_of(2, plan::Pass::kForward) == 4);
}

// Two users of one resource have half of it each; what one of them cannot use, the other gets.
TEST_CASE("rates are max-min fair") {
  FairShares shares(3);
  shares.add(0, {{0, 1}});
  shares.settle();
  CHECK(shares.rate(0) == 1);
  shares.add(1, {{0, 1}, {1, 1}});
  shares.settle();
  CHECK(shares.rate(0) == 0.5);
  CHECK(shares.rate(1) == 0.5);
  shares.add(2, {{1, 1}});
  shares.add(3, {{1, 1}});
  shares.settle();
  CHECK(shares.touched().size() == 4);
  shares.add(4, {{2, 0.5}});
  shares.settle();
  CHECK(shares.rate(1) == Approx(1.0 / 3));
  CHECK(shares.rate(2) == Approx(1.0 / 3));
  CHECK(shares.rate(0) == Approx(2.0 / 3));
  CHECK(shares.rate(4) == 1);
  CHECK(shares.touched() == std::vector<int32_t>{4});
  shares.remove(1);
  shares.settle();
  CHECK(shares.rate(0) == 1);
  CHECK(shares.rate(2) == 0.5);
}

// Two that take half of the resource each do not feel each other; a third one slows all of them down.
TEST_CASE("activities are slowed down only where a resource is full") {
  FairShares shares(1);
  shares.add(0, {{0, 0.5}});
  shares.add(1, {{0, 0.5}});
  shares.settle();
  CHECK(shares.rate(0) == 1);
  CHECK(shares.rate(1) == 1);
  shares.add(2, {{0, 1}});
  shares.settle();
  CHECK(shares.rate(0) == 0.5);
  CHECK(shares.rate(2) == 0.5);
}

// Two that come at once share the port, a short one does not wait for a long one; who asks late finds the times that
// were free then.
TEST_CASE("what goes through a port shares it") {
  plan::LinkPort<int64_t> port;
  CHECK(port.take(10, 5) == 15);
  CHECK(port.take(12, 5) == 20);  // beside the 3 that are left, then alone
  CHECK(port.take(30, 5) == 35);
  CHECK(port.take(18, 10) == 30);
  CHECK(port.take(0, 10) == 10);
  CHECK(port.take(0, 1) == 2);  // all of 0 to 35 is taken
  CHECK(port.take(7, 0) == 7);
  CHECK(port.take(35, 1) == 37);  // and so is the next one, of the one above
  port.forget(40);
  CHECK(port.take(0, 1) == 1);
}

// Two ranks, two microbatches: every instruction has its time, every message both of its ends.
TEST_CASE("a timeline tells every instruction and every transfer") {
  const auto bundle = plan::example::pipeline(2, 2);
  const Timeline timeline = played(bundle, SharedLink());
  REQUIRE(timeline.activities.size() == 2);
  for (size_t p = 0; p < 2; ++p) {
    REQUIRE(timeline.activities[p].size() == bundle.ranks[p].instructions.size());
    std::vector<double> reached(bundle.ranks[p].streams.size());
    for (size_t i = 0; i < timeline.activities[p].size(); ++i) {
      const Activity& activity = timeline.activities[p][i];
      const auto& instruction = bundle.ranks[p].instructions[i];
      CHECK(static_cast<size_t>(activity.kind) == instruction.action.index());
      CHECK(activity.stream == instruction.stream);
      CHECK(activity.begin == reached[static_cast<size_t>(activity.stream)]);
      reached[static_cast<size_t>(activity.stream)] = activity.end;
    }
  }
  REQUIRE(timeline.transfers.size() == 4);  // two activations, two gradients
  for (const Transfer& transfer : timeline.transfers) {
    REQUIRE(timeline.ends_of(transfer).size() == 2);
    const TransferEnd sender = timeline.ends_of(transfer)[0], receiver = timeline.ends_of(transfer)[1];
    const auto& activity = [&](const TransferEnd& end) {
      return timeline.activities[static_cast<size_t>(end.plan)][static_cast<size_t>(end.instruction)];
    };
    CHECK(activity(sender).kind == Kind::kSend);
    CHECK(activity(receiver).kind == Kind::kRecv);
    CHECK(transfer.begin == std::max(activity(sender).begin, activity(receiver).begin));
    CHECK(transfer.end >= transfer.begin + 4);
    CHECK(activity(receiver).end == transfer.end);
    CHECK(transfer.bytes > 0);
  }
  // For one length: forward 0 of rank 0, its message, both forwards and both backwards of rank 1, the last gradient's
  // message, the last backward of rank 0.
  CHECK(timeline.step == 10 + 4 + 20 + 20 + 4 + 10);
}

}  // namespace piper::timeline
