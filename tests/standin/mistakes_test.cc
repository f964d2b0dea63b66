// Mistakes planted in small plans on their way to the stand-in's GPU: each is found, as a race, by what the ranks find
// out when they meet, or by the deadline of a wait.
#include <catch2/catch.hpp>

#include <algorithm>

#include "tests/standin/planted_races.h"
#include "tests/standin/standin.h"
#include "tests/standin/train_plan.h"
#include "tests/unit/hand_written_plans.h"

namespace piper::standin {
namespace {

// Nothing comes back from rank 1, so that nothing but its offers orders the next y after its last use.
plan::Bundle one_way() {
  plan::Bundle bundle = hand_written::pipeline();
  drop(bundle, 1, find<plan::Send>(bundle, 1));
  drop(bundle, 0, find<plan::Recv>(bundle, 0));
  return bundle;
}

class WithoutWaits : public hal::Command {
 public:
  explicit WithoutWaits(hal::Command& command) : command_(command) {}
  Status issue(hal::Queue& queue, const hal::Submission& submission) override {
    const IgnoredWaits ignored;
    return command_.issue(queue, submission);
  }
  const char* prevents_capture() const override { return command_.prevents_capture(); }

 private:
  hal::Command& command_;
};

std::unique_ptr<hal::Command> without_waits(hal::Device&, hal::Command& command) {
  return std::make_unique<WithoutWaits>(command);
}

struct Mistake {
  const char* name;
  plan::Bundle (*bundle)();
  std::function<void(plan::Bundle&)> plant;
  std::string found;  // the begin of the failure's code and words
  // Instead of `plant`: changes an instruction's command on its way, and keeps what it puts there.
  int32_t rank = -1;
  size_t at = 0;
  ChangeCommand change;
  bool by_cuts = false;  // the cuts between graphs order it, where there are graphs
};

std::vector<Mistake> mistakes() {
  using hand_written::pipeline, hand_written::replicas, hand_written::sharded;
  std::vector<Mistake> list;
  const auto told = [&](const char* name, plan::Bundle (*bundle)(), const char* found,
                        std::function<void(plan::Bundle&)> plant) {
    list.push_back({name, bundle, std::move(plant), found});
  };
  for (const PlantedRace& race : planted_races())
    list.push_back({race.name, race.bundle, race.plant, kRace, -1, 0, {}, true});
  list.push_back({"a sender does not wait for the receiver's place", one_way, {}, kRace, 0, 3, without_waits});
  list.push_back({"a receiver does not wait for the sender's copy", pipeline, {}, kRace, 1, 0, without_waits});
  list.push_back({"a member of a sum waits for nobody", replicas, {}, kRace, 1, 3, without_waits});
  list.push_back({"a member of a gather waits for nobody", sharded, {}, kRace, 0, 3, without_waits});
  list.push_back({"memory is freed before its last use", pipeline, {}, "R0407 rank 0", 0, 0, over_freed_memory});

  told("a receiver does not come to the meeting", pipeline, "R0302 rank ",
       [](auto& b) { drop(b, 1, find<plan::Recv>(b, 1)); });
  told("a sender does not come to the meeting", pipeline, "R0302 rank ",
       [](auto& b) { drop(b, 0, find<plan::Send>(b, 0)); });
  told("the sends of a pair are swapped", two_messages, "R0302 rank ", [](auto& b) {
    const size_t at = find<plan::Send>(b, 0);
    swap(b, 0, at, at + 1);
  });
  told("a message goes over the other's channel", two_messages, "R0302 rank ",
       [](auto& b) { std::get<plan::Send>(instructions_of(b, 0)[find<plan::Send>(b, 0)].action).channel = 2; });
  told("a message is shorter than its receiver expects", pipeline, "R0301 rank 0",
       [](auto& b) { std::get<plan::Send>(instructions_of(b, 0)[find<plan::Send>(b, 0)].action).count = 3; });
  told("both ranks send first", pipeline, "R0302 rank ", [](auto& b) {
    const size_t recv = find<plan::Recv>(b, 1), send = find<plan::Send>(b, 1);
    swap(b, 1, recv, send);
  });
  told("sums are in another order on one rank", replicas, "R030", [](auto& b) {
    const size_t at = find<plan::AllReduce>(b, 1);
    swap(b, 1, at, at + 1);
  });
  told("a sum has another count on one rank", replicas, "R0301 rank ",
       [](auto& b) { std::get<plan::AllReduce>(instructions_of(b, 1)[find<plan::AllReduce>(b, 1)].action).count = 4; });
  told("a rank leaves a sum out", replicas, "R030",
       [](auto& b) { drop(b, 1, find<plan::AllReduce>(b, 1, find<plan::AllReduce>(b, 1) + 1)); });
  told("a rank gathers in front of its sum", sharded, "R030", [](auto& b) {
    const size_t sum = find<plan::AllReduce>(b, 1), gather = find<plan::AllGather>(b, 1);
    swap(b, 1, sum, gather);
  });
  return list;
}

PlanTrained trained(const plan::Bundle& bundle, On on, const Mistake& mistake, bool waits) {
  std::vector<std::unique_ptr<hal::Command>> changed;
  return train_plan(bundle, [&](Training training) {
    if (waits) training.timeout = std::chrono::milliseconds(400);
    if (mistake.change) training.gpu.watch = change_command(mistake.rank, mistake.at, mistake.change, changed);
    return train(training, on);
  });
}

TEST_CASE("the plans without mistakes train") {
  for (const auto bundle :
       {hand_written::pipeline, hand_written::replicas, hand_written::sharded, two_messages, one_way})
    for (const On on : {On::kGpu, On::kGraphs}) CHECK(trained(bundle(), on, {}, false).failure().empty());
}

// A race between what is in two segments is none where the cut orders them: then the bits must be right.
TEST_CASE("each planted mistake is found") {
  for (const Mistake& mistake : mistakes()) {
    plan::Bundle bundle = mistake.bundle();
    if (mistake.plant) mistake.plant(bundle);
    for (const On on : {On::kGpu, On::kGraphs}) {
      INFO(mistake.name << (on == On::kGraphs ? ", with graphs" : ""));
      const PlanTrained result = trained(bundle, on, mistake, mistake.found.find("R030") == 0);
      if (on == On::kGraphs && mistake.by_cuts && result.failure().empty()) {
        CHECK(result.weights == trained(mistake.bundle(), On::kCpu, {}, false).weights);
        continue;
      }
      INFO(result.failure());
      CHECK(result.failure().substr(0, mistake.found.size()) == mistake.found);
    }
  }
}

}  // namespace
}  // namespace piper::standin
