// A failure in one process of a run ends the others, and one of them reports it: between threads that each have what a
// process has, over a store on loopback.
#include "runtime/hal/tcp/failure_watch.h"

#include <catch2/catch.hpp>

#include <latch>
#include <map>
#include <mutex>
#include <thread>

#include "tests/conformance/control_channel_cases.h"

namespace piper::hal {
namespace {

using namespace std::chrono_literals;
using Channel = std::unique_ptr<TcpStoreChannel>;

TcpStoreChannel::Options options(int32_t rank, int32_t ranks, uint16_t port) {
  TcpStoreChannel::Options result;
  result.at = {"127.0.0.1", port, "a run"};
  result.rank = rank;
  result.world_size = ranks;
  result.bundle_digest = "0123456789abcdef";
  return result;
}

void with_channels(int32_t ranks, const std::function<std::string(Channel&)>& body) {
  auto port = BoundPort::bind(0, BoundPort::Reach::kLoopback);
  REQUIRE(port.ok());
  const uint16_t number = port->port();
  run_on_threads(ranks, [&](int32_t rank) -> std::string {
    auto channel = rank == 0 ? TcpStoreChannel::serve(options(0, ranks, 0), std::move(*port), kWait)
                             : TcpStoreChannel::join(options(rank, ranks, number), kWait);
    if (!channel.ok()) return channel.error().message;
    const Status met = (*channel)->barrier(kWait);
    return met.ok() ? body(*channel) : met.error().message;
  });
}

void wait_until_raised(const Stop& stop) {
  while (!stop.raised()) std::this_thread::sleep_for(5ms);
}

using Verdicts = std::map<int32_t, FailureWatch::Verdict>;

// What each rank is given when `fail` has been called on all of them, with its Stop; no rank goes before all have been
// given it, unless `fail` ends its channel.
Verdicts verdicts(int32_t ranks, const std::function<void(int32_t rank, Stop& stop, Channel& channel)>& fail) {
  Verdicts told;
  std::mutex mutex;
  std::latch begun(ranks), all(ranks);
  with_channels(ranks, [&](Channel& channel) -> std::string {
    Stop stop;
    const int32_t rank = channel->rank();
    auto watch = FailureWatch::begin(channel->options(), stop);
    if (!watch.ok()) return watch.error().message;
    begun.arrive_and_wait();
    fail(rank, stop, channel);
    wait_until_raised(stop);
    const FailureWatch::Verdict verdict = (*watch)->verdict();
    (*watch)->leave();
    {
      std::lock_guard lock(mutex);
      told[rank] = verdict;
    }
    all.arrive_and_wait();
    return "";
  });
  return told;
}

TEST_CASE("the process that fails speaks, the others end with its code") {
  const Verdicts told = verdicts(3, [](int32_t rank, Stop& stop, Channel&) {
    if (rank == 1) stop.raise(Status::failure("R0701", "the disk is full"));
  });
  for (const auto& [rank, verdict] : told) {
    CHECK(verdict.code == "R0701");
    CHECK(verdict.speaks == (rank == 1));
  }
}

TEST_CASE("of processes that fail at the same time one speaks") {
  const Verdicts told = verdicts(4, [](int32_t rank, Stop& stop, Channel&) {
    stop.raise(Status::failure(rank % 2 == 0 ? "R0403" : "R0406", "of rank " + std::to_string(rank)));
  });
  int speakers = 0;
  for (const auto& [rank, verdict] : told) {
    speakers += verdict.speaks ? 1 : 0;
    CHECK(verdict.code == told.begin()->second.code);
  }
  CHECK(speakers == 1);
}

TEST_CASE("a failure that others may have caused waits for its cause") {
  const Verdicts told = verdicts(3, [](int32_t rank, Stop& stop, Channel&) {
    if (rank == 0) stop.raise(Status::failure("R0303", "NCCL says that another rank has gone"));
    if (rank == 2) stop.raise(Status::failure("R0403", "the cause"));
  });
  for (const auto& [rank, verdict] : told) {
    CHECK(verdict.code == "R0403");
    CHECK(verdict.speaks == (rank == 2));
  }
}

TEST_CASE("a signal in one process ends the others") {
  const Verdicts told = verdicts(2, [](int32_t rank, Stop& stop, Channel&) {
    if (rank == 1) stop.raise_signal(15);
  });
  CHECK(told.at(0).code.empty());
  CHECK(!told.at(0).speaks);
  CHECK(told.at(1).speaks);
}

TEST_CASE("where the store goes with rank 0, rank 1 speaks") {
  const Verdicts told = verdicts(3, [](int32_t rank, Stop& stop, Channel& channel) {
    if (rank != 0) return;
    channel.reset();
    stop.raise_signal(9);  // this thread's own watch has lost the store as well
  });
  CHECK(told.at(1).speaks);
  CHECK(told.at(1).code == "R0303");
  CHECK(!told.at(2).speaks);
}

TEST_CASE("a run that ends in order stops nobody") {
  with_channels(2, [&](Channel& channel) -> std::string {
    Stop stop;
    auto watch = FailureWatch::begin(channel->options(), stop);
    if (!watch.ok()) return watch.error().message;
    watch->reset();
    const Status left = channel->leave(kWait);
    if (!left.ok()) return left.error().message;
    return stop.raised() ? "stopped" : "";
  });
}

TEST_CASE("channels beside each other carry messages of their own, at the same time") {
  with_channels(3, [&](Channel& channel) -> std::string {
    auto beside = channel->beside("checkpoints", kWait);
    if (!beside.ok()) return beside.error().message;
    const auto hear_all = [](ControlChannel& on, const std::string& name) -> std::string {
      for (int round = 0; round < 20; ++round) {
        const auto all = on.allgather(name + std::to_string(on.rank()) + "." + std::to_string(round), kWait);
        if (!all.ok()) return all.error().message;
        for (int32_t rank = 0; rank < on.world_size(); ++rank)
          if ((*all)[static_cast<size_t>(rank)] != name + std::to_string(rank) + "." + std::to_string(round))
            return "a text of another channel or round";
      }
      return "";
    };
    std::string wrong_beside;
    std::thread other([&] { wrong_beside = hear_all(**beside, "beside "); });
    const std::string wrong = hear_all(*channel, "first ");
    other.join();
    if (!wrong.empty() || !wrong_beside.empty()) return wrong + wrong_beside;
    const Status left = channel->leave(kWait);
    return left.ok() ? "" : left.error().message;
  });
}

}  // namespace
}  // namespace piper::hal
