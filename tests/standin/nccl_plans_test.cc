// Small plans written by hand over the stand-in for NCCL: the bits of the CPU; and plans in which one rank makes a
// mistake: each ends with one message that names it.
#include <catch2/catch.hpp>

#include <map>
#include <mutex>
#include <set>

#include "tests/standin/nccl_backend.h"
#include "tests/standin/nccl_standin.h"
#include "tests/standin/planted_races.h"
#include "tests/standin/standin.h"
#include "tests/standin/train_plan.h"
#include "tests/standin/watched_collectives.h"
#include "tests/unit/hand_written_plans.h"

namespace piper::standin {
namespace {

PlanTrained trained(const plan::Bundle& bundle, int64_t steps, const std::function<Status(Training)>& how) {
  return train_plan(bundle, how, {steps, true});
}

PlanTrained trained(const plan::Bundle& bundle, On on, int64_t steps,
                    plan::Summing summing = plan::Summing::kPosition) {
  return trained(bundle, steps, [&](const Training& training) { return train_over_nccl(training, on, summing); });
}

const char* name_of(On on) { return on == On::kGraphs ? "with graphs" : "without graphs"; }

TEST_CASE("messages, sums, parts and exchanges over NCCL give the bits of the CPU") {
  const std::pair<const char*, plan::Bundle> bundles[] = {{"pipeline", hand_written::pipeline()},
                                                          {"replicas", hand_written::replicas()},
                                                          {"sharded", hand_written::sharded()},
                                                          {"exchanged", hand_written::exchanged()}};
  for (const auto& [name, bundle] : bundles) {
    const PlanTrained cpu = trained(bundle, On::kCpu, 3);
    for (const On on : {On::kGpu, On::kGraphs}) {
      INFO(name << ", " << name_of(on));
      const PlanTrained gpu = trained(bundle, on, 3);
      INFO((gpu.status.ok() ? "" : gpu.status.error().message));
      REQUIRE(gpu.status.ok());
      CHECK(cpu.weights == gpu.weights);
      CHECK(cpu.gradients == gpu.gradients);
    }
  }
}

// Whole steps, except an exchange of rows that the host counts.
TEST_CASE("steps over NCCL are single graphs") {
  const std::tuple<const char*, plan::Bundle, size_t> bundles[] = {{"pipeline", hand_written::pipeline(), 0},
                                                                   {"replicas", hand_written::replicas(), 0},
                                                                   {"sharded", hand_written::sharded(), 0},
                                                                   {"exchanged", hand_written::exchanged(), 1}};
  for (const auto& [name, bundle, cuts] : bundles) {
    INFO(name);
    std::mutex mutex;
    std::map<int32_t, std::set<std::pair<int32_t, std::string>>> seen;
    const PlanTrained gpu = trained(bundle, 2, [&](Training training) {
      training.gpu.watch = [&](const plan::RankPlan& plan) -> Watch {
        return {{}, [&](const hal::Recording& recording) {
                  std::lock_guard lock(mutex);
                  for (const hal::Uncaptured& command : recording.uncaptured())
                    seen[plan.rank].emplace(command.instruction, command.reason);
                }};
      };
      return train_over_nccl(training, On::kGraphs, plan::Summing::kPosition);
    });
    REQUIRE(gpu.status.ok());
    for (int32_t rank = 0; rank < 2; ++rank) {
      CHECK(seen[rank].size() == cuts);
      for (const auto& [instruction, reason] : seen[rank]) {
        CHECK(reason == "the host reads how many rows go to each rank");
        const auto& action =
            bundle.ranks[static_cast<size_t>(rank)].instructions[static_cast<size_t>(instruction)].action;
        CHECK(std::holds_alternative<plan::AllToAll>(action));
      }
    }
  }
}

// Two members: x + y = y + x, whoever adds.
TEST_CASE("sums by NCCL itself, of two members, have the same bits") {
  for (const plan::Bundle& bundle : {hand_written::replicas(), hand_written::sharded()}) {
    const PlanTrained cpu = trained(bundle, On::kCpu, 2);
    for (const On on : {On::kGpu, On::kGraphs}) {
      INFO(name_of(on));
      const PlanTrained gpu = trained(bundle, on, 2, plan::Summing::kLibrary);
      REQUIRE(gpu.status.ok());
      CHECK(cpu.weights == gpu.weights);
    }
  }
}

TEST_CASE("one communicator for each of the plan, then one for each channel, in one group") {
  plan::Bundle bundle = hand_written::pipeline();
  bundle.ranks[0].streams.edit()[1].max_ctas = 3;
  for (plan::RankPlan& rank : bundle.ranks) rank.communicators = {{"team", {0, 1}, 5}};
  std::vector<std::vector<NcclCommunicatorSeen>> seen(2);
  std::mutex mutex;
  const MakeRank backend = watched_nccl({}, [&](int32_t rank, const hal::Collectives* collectives) {
    std::lock_guard lock(mutex);
    if (collectives != nullptr) CHECK(collectives->buffer_bytes() == 3 * (2 << 20));
    seen[static_cast<size_t>(rank)] = nccl_communicators();
  });
  set_devices(2);
  const PlanTrained result = trained(bundle, 1, [&](const Training& training) { return train(training, backend); });
  set_devices(1);
  REQUIRE(result.status.ok());
  for (size_t rank = 0; rank < 2; ++rank) {
    INFO("rank " << rank);
    REQUIRE(seen[rank].size() == 3);
    CHECK(seen[rank][0].name == "team");
    CHECK(seen[rank][0].max_ctas == 5);
    // One id, two directions: from rank 0 to rank 1, and back.
    for (const size_t channel : {size_t{1}, size_t{2}}) {
      CHECK(seen[rank][channel].name == (channel == 1 ? "channel 3, 0>1" : "channel 3, 1>0"));
      CHECK(seen[rank][channel].members == 2);
      CHECK(seen[rank][channel].rank == static_cast<int>(channel == 1 ? rank : 1 - rank));
      CHECK(seen[rank][channel].max_ctas == (rank == 0 ? 3 : 0));
    }
    for (const NcclCommunicatorSeen& communicator : seen[rank]) {
      CHECK(communicator.initialised == 1);
      CHECK(communicator.destroyed);
    }
  }
}

// The place of a message is known to the last event that its stream has passed. The first message of a communicator is
// that of the start.
struct Mistake {
  const char* name;
  plan::Bundle bundle;
  std::function<void(plan::Bundle&)> make;
  std::string code;
  std::vector<std::string> words;  // of the message, in any order
};

TEST_CASE("a mistake of one rank's plan ends with one message that names rank, instruction and line") {
  const Mistake mistakes[] = {
      {"another order of two collectives of one communicator",
       hand_written::replicas(),
       [](plan::Bundle& b) { std::swap(instructions_of(b, 1)[3], instructions_of(b, 1)[4]); },
       "R0303",
       {"the calls of", "of 'dp_reduce:0,1' differ", "instr", "replicate at s.yaml:4:5"}},
      {"a collective that one rank leaves out",
       hand_written::replicas(),
       [](plan::Bundle& b) { instructions_of(b, 1).erase(instructions_of(b, 1).begin() + 3); },
       "R0303",
       {"the calls of", "of 'dp_reduce:0,1' differ"}},
      {"another count",
       hand_written::replicas(),
       [](plan::Bundle& b) { std::get<plan::AllReduce>(instructions_of(b, 1)[3].action).count = 4; },
       "R0303",
       {"the calls of message 1 from member", "of 'dp_reduce:0,1' differ"}},
      {"a message that is longer than its receiver expects",
       hand_written::pipeline(),
       [](plan::Bundle& b) { std::get<plan::Recv>(instructions_of(b, 1)[0].action).count = 2; },
       "R0303",
       {"the calls of message 1 from member 0 to member 1 of 'channel 3, 0>1' differ", "of 16 ncclUint8",
        "of 8 ncclUint8", "instr"}},
      {"the messages of a pair in another order",
       hand_written::pipeline(),
       [](plan::Bundle& b) { std::swap(instructions_of(b, 0)[3], instructions_of(b, 0)[4]); },
       "R0303",
       {"deadlock: ", "member 1 of 'channel 3, 0>1' is at ncclRecv of 16 ncclUint8 and waits for member 0",
        "member 1 of 'channel 3, 1>0' is at ncclRecv of 16 ncclUint8 and waits for member 0", "instr"}},
      {"the sends of a pair swapped",
       two_messages(),
       [](plan::Bundle& b) {
         const size_t at = find<plan::Send>(b, 0);
         swap(b, 0, at, at + 1);
       },
       "R0303",
       {"deadlock: ", "member 0 of 'channel 5, 0>1' is at ncclSend of 8 ncclUint8 and waits for member 1", "instr"}},
      {"another kind",
       hand_written::sharded(),
       [](plan::Bundle& b) { std::swap(instructions_of(b, 1)[3], instructions_of(b, 1)[4]); },
       "R0303",
       {"of 'dp_reduce:0,1' differ"}},
      {"rows of which the two ends count others",
       hand_written::exchanged(),
       [](plan::Bundle& b) { b.ranks[1].scalars[0].values = {0, 1}; },
       "R0303",  // which NCCL may tell at a later call of the same communicator
       {"the calls of message", "of 'dp_reduce:0,1' differ", "of 0 ncclUint8", "of 8 ncclUint8"}},
      {"more rows than there is room for",
       hand_written::exchanged(),
       [](plan::Bundle& b) { b.ranks[1].scalars[0].values = {3, 1}; },
       "R0304",
       {"rank 1, step 1, instr 1", "3 rows to rank 0, where a part has room for 0 to 1"}},
      {"ranks that wait for one another on different streams",
       hand_written::lanes(),
       [](plan::Bundle&) {},
       "R0303",
       {"deadlock: "}},
      {"a communicator that one rank uses otherwise",
       hand_written::sharded(),
       [](plan::Bundle& b) { drop(b, 1, find<plan::AllGather>(b, 1)); },
       "R0404",
       {"the plans do not agree: on rank 0 communicator 'dp_reduce:0,1' of ranks 0, 1 is used for messages and "
        "ncclAllGather, on rank 1 communicator 'dp_reduce:0,1' of ranks 0, 1 is used for messages"}},
      {"messages that only one rank has",
       hand_written::pipeline(),
       [](plan::Bundle& b) { instructions_of(b, 0).erase(instructions_of(b, 0).begin() + 3); },
       "R0404",
       {"rank 1: communicator 'channel 3, 0>1' of ranks 0, 1 is unknown to its first rank"}},
      {"a collective to which one rank does not come",
       hand_written::replicas(),
       [](plan::Bundle& b) { instructions_of(b, 1).erase(instructions_of(b, 1).begin() + 4); },
       "R0302",
       {"rank 0, step 1: waited 5 s for the device to finish a step",
        "stream dp_reduce: at instr 2 wait grads ready (replicate at s.yaml:4:5)"}},
      {"a communicator that its first rank does not know",
       hand_written::replicas(),
       [](plan::Bundle& b) { b.ranks[1].communicators[0].name = "other"; },
       "R0404",
       {"rank 1", "communicator 'other' of ranks 0, 1 is unknown to its first rank"}}};
  for (const Mistake& mistake : mistakes)
    for (const On on : {On::kGpu, On::kGraphs}) {
      INFO(mistake.name << ", " << name_of(on));
      plan::Bundle bundle = mistake.bundle;
      mistake.make(bundle);
      const Status status = trained(bundle, on, 1).status;
      REQUIRE(!status.ok());
      INFO(status.error().code << " " << status.error().message);
      CHECK(status.error().code == mistake.code);
      CHECK(status.error().message.find("rank ") != std::string::npos);
      for (const std::string& words : mistake.words) {
        INFO(words);
        CHECK(status.error().message.find(words) != std::string::npos);
      }
    }
}

TEST_CASE("memory that is freed before its last use is found over NCCL") {
  for (const On on : {On::kGpu, On::kGraphs}) {
    std::vector<std::unique_ptr<hal::Command>> changed;
    const PlanTrained result = trained(hand_written::pipeline(), 1, [&](Training training) {
      training.gpu.watch = change_command(0, 0, over_freed_memory, changed);
      return train_over_nccl(training, on, plan::Summing::kPosition);
    });
    INFO(name_of(on) << ": " << result.failure());
    CHECK(result.failure().find("R0407 rank 0") == 0);
  }
}

#ifndef __SANITIZE_THREAD__  // to which they are races as well
TEST_CASE("each planted race is found over NCCL") {
  for (const PlantedRace& race : planted_races())
    for (const On on : {On::kGpu, On::kGraphs}) {
      INFO(race.name << ", " << name_of(on));
      plan::Bundle bundle = race.bundle();
      race.plant(bundle);
      const Status status = trained(bundle, on, 2).status;
      REQUIRE(!status.ok());
      const std::string found = status.error().code + " " + status.error().message;
      INFO(found);
      CHECK(found.substr(0, std::string(kRace).size()) == kRace);
    }
}
#endif

}  // namespace
}  // namespace piper::standin
