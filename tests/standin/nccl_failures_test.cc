// Runs over the stand-in for NCCL that end early: the rank that fails is heard, and no rank waits for one that does not
// come.
#include <catch2/catch.hpp>

#include <atomic>
#include <mutex>
#include <thread>

#include "tests/standin/nccl_standin.h"
#include "tests/standin/planted_races.h"
#include "tests/standin/standin.h"
#include "tests/standin/train_plan.h"
#include "tests/standin/watched_collectives.h"
#include "tests/unit/hand_written_plans.h"

namespace piper::standin {
namespace {

// How each rank's communicators were when they had gone.
struct Ended {
  PlanTrained result;
  std::vector<std::vector<NcclCommunicatorSeen>> ranks;
};

Ended run(const plan::Bundle& bundle, GpuOptions options) {
  Ended ended;
  ended.ranks.resize(bundle.ranks.size());
  std::mutex mutex;
  const MakeRank make = watched_nccl(options, [&](int32_t rank, const hal::Collectives*) {
    std::lock_guard lock(mutex);
    ended.ranks[static_cast<size_t>(rank)] = nccl_communicators();
  });
  set_devices(static_cast<int>(bundle.ranks.size()));
  ended.result = train_plan(bundle,
                            [&](Training training) {
                              training.timeout = std::chrono::minutes(5);
                              return train(training, make);
                            },
                            {2, false});
  set_devices(1);
  return ended;
}

// The last command of rank 0, and one of rank 1 that fails when rank 0 has issued all of its own.
class Last : public hal::Command {
 public:
  Last(hal::Command& command, std::atomic<bool>& issued) : command_(command), issued_(issued) {}
  Status issue(hal::Queue& queue, const hal::Submission& submission) override {
    Status status = command_.issue(queue, submission);
    issued_ = true;
    return status;
  }

 private:
  hal::Command& command_;
  std::atomic<bool>& issued_;
};
class Failing : public hal::Command {
 public:
  explicit Failing(const std::atomic<bool>& issued) : issued_(issued) {}
  Status issue(hal::Queue&, const hal::Submission&) override {
    while (!issued_) std::this_thread::yield();
    return Status::failure("R0403", "planted");
  }

 private:
  const std::atomic<bool>& issued_;
};

// The pipeline, and a sum of both ranks at its end: of the communicators of rank 0, the first one has a call on the
// device that is after a message of the last one.
plan::Bundle pipeline_and_sum() {
  plan::Bundle bundle = hand_written::pipeline();
  for (size_t rank = 0; rank < 2; ++rank) {
    bundle.ranks[rank].communicators = {{"team", {0, 1}}};
    instructions_of(bundle, rank)
        .push_back(hand_written::instruction(0, plan::AllReduce{{2, 0}, 4, DType::kF32, 0, plan::Reduction::kSum}));
  }
  return bundle;
}

TEST_CASE("a step that fails on one rank ends on the other, which waits for it in several communicators") {
  for (const bool graphs : {false, true}) {
    INFO((graphs ? "with graphs" : "without graphs"));
    plan::Bundle bundle = pipeline_and_sum();
    std::atomic<bool> issued{false};
    Failing failing(issued);
    std::unique_ptr<Last> last;
    GpuOptions options;
    options.graphs = graphs;
    options.watch = [&](const plan::RankPlan& plan) -> Watch {
      return {[&, rank = plan.rank](hal::Device&, std::vector<hal::Issue>& commands) {
                if (rank == 1) commands.at(find<plan::Send>(bundle, 1)).command = &failing;
                else commands.back().command = (last = std::make_unique<Last>(*commands.back().command, issued)).get();
              },
              {}};
    };
    const Ended ended = run(bundle, options);
    INFO(ended.result.failure());
    CHECK(ended.result.failure().find("R0403 rank 1, step 1, instr 2 send") == 0);
    for (const auto& rank : ended.ranks) {
      REQUIRE(rank.size() == 3);
      for (const NcclCommunicatorSeen& communicator : rank) CHECK(!communicator.destroyed);
    }
  }
}

TEST_CASE("a rank that fails while it loads waits for no other") {
  plan::Bundle bundle = pipeline_and_sum();
  bundle.programs[2].calls[0].kernel = "no_such_kernel";  // of rank 1 alone
  const Ended ended = run(bundle, {});
  INFO(ended.result.failure());
  CHECK(ended.result.failure().find("R0401 rank 1") == 0);
  for (const auto& rank : ended.ranks) {
    REQUIRE(rank.size() == 3);
    for (const NcclCommunicatorSeen& communicator : rank) CHECK(!communicator.finalized);
  }
}

TEST_CASE("a run that ends well finalizes its communicators, with graphs and without") {
  for (const bool graphs : {false, true}) {
    GpuOptions options;
    options.graphs = graphs;
    const Ended ended = run(pipeline_and_sum(), options);
    INFO(ended.result.failure());
    REQUIRE(ended.result.status.ok());
    for (const auto& rank : ended.ranks)
      for (const NcclCommunicatorSeen& communicator : rank) CHECK(communicator.destroyed);
  }
}

}  // namespace
}  // namespace piper::standin
