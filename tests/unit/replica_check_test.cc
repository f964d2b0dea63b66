// Replicas of which one has a flipped bit are told apart, on every rank alike.
#include <catch2/catch.hpp>

#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/exec/checks/replica_check.h"
#include "runtime/hal/local/local_transport.h"
#include "runtime/hal/transport_channel.h"

namespace piper::exec {
namespace {

// Ranks that keep parameter "w" of 8 elements, and the parts [2 rank, 2 rank + 2) of "part", which nobody else has.
class Replicas {
 public:
  explicit Replicas(int32_t count) : world_(count), plans_(static_cast<size_t>(count)) {
    for (int32_t r = 0; r < count; ++r) {
      plan::RankPlan& plan = plans_[static_cast<size_t>(r)];
      plan.rank = r;
      const auto place = [&](const char* name, plan::PlacementKind kind, int64_t at, int64_t first, int64_t elements) {
        plan::Placement placement;
        placement.name = name;
        placement.kind = kind;
        placement.shape = {8};
        placement.part = {{0, at}, first, elements, r == 0};
        plan.placements.push_back(placement);
      };
      place("w", plan::PlacementKind::kValue, 0, 0, 8);
      place("w", plan::PlacementKind::kFirstMoment, 64, 0, 8);
      place("w", plan::PlacementKind::kGradient, 128, 0, 8);
      place("part", plan::PlacementKind::kMaster, 192, 2 * r, 2);
      auto rank = std::make_unique<LoadedRank>();
      Backend backend;
      backend.device = hal::make_cpu_device({}, {{"compute"}});
      rank->backend = std::make_shared<const Backend>(std::move(backend));
      rank->plan = &plan;
      auto memory = rank->device().allocate(256);
      REQUIRE(memory.ok());
      rank->persistent = std::move(memory).value();
      rank->buffers = {rank->persistent->base()};
      ranks_.push_back(std::move(rank));
    }
  }

  // Bit 0 of the byte at `offset` of a rank's memory.
  void flip(int32_t rank, int64_t offset) {
    LoadedRank& of = *ranks_[static_cast<size_t>(rank)];
    std::byte byte{};
    REQUIRE(of.device().read(&byte, of.persistent->base() + offset, 1).ok());
    byte ^= std::byte{1};
    REQUIRE(of.device().write(of.persistent->base() + offset, &byte, 1).ok());
  }

  // What each rank is given, of a check after each of the steps.
  std::vector<std::string> check(const std::vector<int64_t>& steps) {
    std::vector<std::string> told(ranks_.size());
    std::vector<std::thread> threads;
    for (size_t r = 0; r < ranks_.size(); ++r)
      threads.emplace_back([&, r] {
        auto transport = world_.transport(static_cast<int32_t>(r));
        hal::TransportChannel control(*transport);
        auto check = ReplicaCheck::make(*ranks_[r], control, {nullptr, std::chrono::seconds(60)}, 1);
        for (const int64_t step : steps) {
          auto found = check.ok() ? (*check)->run(step) : Result<std::string>(check.take_status());
          told[r] = found.ok() ? *found : "failed: " + found.error().message;
        }
      });
    for (std::thread& thread : threads) thread.join();
    return told;
  }

 private:
  hal::LocalWorld world_;
  std::vector<plan::RankPlan> plans_;
  std::vector<std::unique_ptr<LoadedRank>> ranks_;
};

TEST_CASE("equal replicas are told nothing, whatever parts and gradients they have of their own") {
  Replicas replicas(3);
  replicas.flip(1, 130);  // a gradient
  replicas.flip(2, 193);  // a part that nobody else keeps
  CHECK(replicas.check({100, 200}) == std::vector<std::string>(3));
}

TEST_CASE("of three replicas the one with a flipped bit is named") {
  Replicas replicas(3);
  replicas.flip(1, 64 + 31);
  CHECK(replicas.check({100}) ==
        std::vector<std::string>(3,
                                 "after step 100 rank 1 differs from the other replicas (of ranks 0, 1 and 2) in m of "
                                 "'w', 8 elements from 0; this is the first check of the run"));
}

TEST_CASE("of two replicas both are named") {
  Replicas replicas(2);
  replicas.flip(0, 3);
  CHECK(replicas.check({7}) ==
        std::vector<std::string>(2,
                                 "after step 7 ranks 0 and 1 differ in value of 'w', 8 elements from 0; with two, it "
                                 "is not known which one is right; this is the first check of the run"));
}

TEST_CASE("every single bit of what replicas share is looked at") {
  Replicas replicas(2);
  for (int64_t byte = 0; byte < 96; byte += 5) {
    if (byte >= 32 && byte < 64) continue;  // between the two
    replicas.flip(1, byte);
    INFO(byte);
    CHECK_FALSE(replicas.check({1}).front().empty());
    replicas.flip(1, byte);
  }
}

}  // namespace
}  // namespace piper::exec
