// The control channel over a TCP store, between threads: what it carries, whom it refuses, and how its waits end. Every
// store is on loopback, at a port that was free.
#include <catch2/catch.hpp>

#include <latch>
#include <thread>

#include "runtime/hal/tcp/tcp_store_channel.h"
#include "tests/conformance/control_channel_cases.h"

namespace piper::hal {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Channel = std::unique_ptr<TcpStoreChannel>;

BoundPort free_port() {
  auto port = BoundPort::bind(0, BoundPort::Reach::kLoopback);
  REQUIRE(port.ok());
  return std::move(*port);
}

TcpStoreChannel::Options options(int32_t rank, int32_t ranks, uint16_t port, const std::string& run = "a run") {
  TcpStoreChannel::Options result;
  result.at = {"127.0.0.1", port, run};
  result.rank = rank;
  result.world_size = ranks;
  result.bundle_digest = "0123456789abcdef";
  return result;
}

// Runs `body` on every rank once all have met; it gets the channel itself, to end it early.
void with_channels(int32_t ranks, const std::function<std::string(Channel&)>& body) {
  BoundPort port = free_port();
  const uint16_t number = port.port();
  run_on_threads(ranks, [&](int32_t rank) -> std::string {
    auto channel = rank == 0 ? TcpStoreChannel::serve(options(0, ranks, 0), std::move(port), kWait)
                             : TcpStoreChannel::join(options(rank, ranks, number), kWait);
    if (!channel.ok()) return channel.error().message;
    const Status met = (*channel)->barrier(kWait);
    return met.ok() ? body(*channel) : met.error().message;
  });
}

std::optional<int> over_a_store(int32_t ranks, const RankBody& body) {
  with_channels(ranks, [&](Channel& channel) -> std::string {
    std::string wrong = body(*channel);
    if (const Status left = channel->leave(kWait); !left.ok() && wrong.empty()) wrong = left.error().message;
    return wrong;
  });
  return std::nullopt;
}

std::string expect(const Status& status, const std::string& code, const std::string& text) {
  if (status.ok()) return "no " + code;
  const bool fits = status.error().code == code && status.error().message.find(text) != std::string::npos;
  return fits ? "" : status.error().code + ": " + status.error().message;
}

TEST_CASE("over a store every rank gets every text") { every_rank_gets_every_text(over_a_store); }
TEST_CASE("over a store no rank passes a barrier before all have come") { nobody_passes_a_barrier_early(over_a_store); }
TEST_CASE("over a store a size that cannot be is refused") { a_size_that_cannot_be_is_refused(over_a_store); }
TEST_CASE("over a store a long message arrives") { a_long_message_arrives(over_a_store); }
TEST_CASE("over a store long texts go around a ring of ranks") { long_texts_go_around(over_a_store); }

TEST_CASE("a message that does not come is R0302 and names its sender, and nothing goes behind it") {
  std::latch both(2);
  with_channels(2, [&](Channel& c) -> std::string {
    std::string wrong;
    if (c->rank() == 0) {
      char byte = 0;
      const auto begin = Clock::now();
      const Status status = c->receive(1, &byte, 1, {nullptr, 300ms});
      if (Clock::now() - begin > 5s) wrong = "it waited too long";
      if (wrong.empty()) wrong = expect(status, "R0302", "waited 300 ms for a control message of rank 1");
      if (wrong.empty()) wrong = expect(c->barrier(kWait), "R0303", "has failed before");
    }
    both.arrive_and_wait();
    return wrong;
  });
}

TEST_CASE("messages that nobody takes end the sender's patience before they fill the store") {
  std::latch both(2);
  with_channels(2, [&](Channel& c) -> std::string {
    std::string wrong;
    if (c->rank() == 0) {
      const std::string text(size_t{16} << 20, 'x');
      wrong = expect(c->send(1, text.data(), static_cast<int64_t>(text.size()), {nullptr, 2s}), "R0302",
                     "rank 1 to take control messages");
    }
    both.arrive_and_wait();
    return wrong;
  });
}

TEST_CASE("a message of another size is R0301") {
  std::latch both(2);
  with_channels(2, [&](Channel& c) -> std::string {
    uint64_t bytes = 0;
    std::string wrong;
    if (c->rank() == 0) {
      const Status sent = c->send(1, &bytes, 4, kWait);
      if (!sent.ok()) wrong = sent.error().message;
    } else {
      wrong =
          expect(c->receive(0, &bytes, 8, kWait), "R0301", "rank 0 has a control message of 4 bytes, rank 1 expects 8");
    }
    both.arrive_and_wait();  // the store is there for both
    return wrong;
  });
}

TEST_CASE("a stop ends a wait") {
  BoundPort port = free_port();
  auto channel = TcpStoreChannel::serve(options(0, 2, 0), std::move(port), kWait);
  REQUIRE(channel.ok());
  Stop stop;
  Clock::time_point raised;
  std::thread raising([&] {
    std::this_thread::sleep_for(200ms);
    raised = Clock::now();
    stop.raise_signal(15);
  });
  char byte = 0;
  const Status status = (*channel)->receive(1, &byte, 1, {&stop, kPatience});
  raising.join();
  const auto noticed = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - raised);
  CHECK(is_stopped(status));
  WARN("noticed after " << noticed.count() << " ms");
  CHECK(noticed < 5s);  // about 10 ms where the machine is not loaded
}

TEST_CASE("a stop ends a wait for rank 0") {
  const uint16_t nobody = free_port().port();
  Stop stop;
  stop.raise_signal(15);
  const auto begin = Clock::now();
  const auto channel = TcpStoreChannel::join(options(1, 2, nobody), {&stop, kPatience});
  REQUIRE_FALSE(channel.ok());
  CHECK(is_stopped(Status(channel.error())));
  CHECK(Clock::now() - begin < 5s);
}

TEST_CASE("rank 0 that does not come is R0302") {
  const uint16_t nobody = free_port().port();
  const auto channel = TcpStoreChannel::join(options(1, 2, nobody), {nullptr, 500ms});
  REQUIRE_FALSE(channel.ok());
  CHECK(expect(Status(channel.error()), "R0302", "the TCP store of rank 0 at 127.0.0.1:" + std::to_string(nobody)) ==
        "");
}

TEST_CASE("a process of another run, of another plan or of a rank that is there is refused, and the run goes on") {
  BoundPort port = free_port();
  const uint16_t number = port.port();
  auto first = TcpStoreChannel::serve(options(0, 2, 0), std::move(port), kWait);
  REQUIRE(first.ok());
  auto second = TcpStoreChannel::join(options(1, 2, number), kWait);
  REQUIRE(second.ok());
  const auto refused = [](TcpStoreChannel::Options given) {
    auto channel = TcpStoreChannel::join(std::move(given), kWait);
    return channel.ok() ? Status() : Status(channel.error());
  };
  CHECK(expect(refused(options(1, 2, number, "another")), "R0107",
               "run 'a run' has the TCP store at 127.0.0.1:" + std::to_string(number) +
                   ", and this process is of run 'another'") == "");
  auto again = options(1, 2, number);
  again.at.attempt = 1;
  CHECK(expect(refused(again), "R0107", "this process is of run 'a run' (attempt 1)") == "");
  CHECK(expect(refused(options(1, 2, number)), "R0107", "two processes have the same rank") == "");
  CHECK(expect(refused(options(0, 2, number)), "R0107", "is in use") == "");
  auto other_plan = options(1, 2, number);
  other_plan.bundle_digest = "fedcba9876543210";
  CHECK(expect(refused(other_plan), "R0102",
               "rank 1 read another plan than rank 0: digest fedcba987654 against 0123456789ab") == "");

  run_on_threads(2, [&](int32_t rank) -> std::string {
    TcpStoreChannel& channel = rank == 0 ? **first : **second;
    const auto all = channel.allgather(std::to_string(rank), kWait);
    if (!all.ok()) return all.error().message;
    return *all == std::vector<std::string>{"0", "1"} ? "" : "they did not hear each other";
  });
}

TEST_CASE("rank 0 stays until all have taken their last message") {
  with_channels(3, [](Channel& c) -> std::string {
    char byte = 'x';
    if (c->rank() == 0) {
      for (const int32_t to : {1, 2})
        if (!c->send(to, &byte, 1, kWait).ok()) return "not sent";
      const Status left = c->leave(kWait);
      c.reset();
      return left.ok() ? "" : left.error().message;
    }
    std::this_thread::sleep_for(c->rank() * 200ms);
    const Status came = c->receive(0, &byte, 1, kWait);
    if (!came.ok()) return came.error().message;
    const Status left = c->leave(kWait);
    return left.ok() ? "" : left.error().message;
  });
}

TEST_CASE("a goodbye that does not come is R0302") {
  std::latch both(2);
  with_channels(2, [&](Channel& c) -> std::string {
    std::string wrong;
    if (c->rank() == 0) wrong = expect(c->leave({nullptr, 300ms}), "R0302", "waited 300 ms for rank 1 to end");
    both.arrive_and_wait();
    return wrong;
  });
}

// A store of another run replaces the launcher's: it knows nothing of the runs that meet in it.
TEST_CASE("ranks meet in a store that the launcher serves, attempt by attempt") {
  BoundPort port = free_port();
  const uint16_t number = port.port();
  auto launcher = TcpStoreChannel::serve(options(0, 1, 0, "launcher"), std::move(port), kWait);
  REQUIRE(launcher.ok());
  for (const int32_t attempt : {0, 1})
    run_on_threads(3, [&](int32_t rank) -> std::string {
      auto mine = options(rank, 3, number);
      mine.at.served_by_launcher = true;
      mine.at.attempt = attempt;
      auto channel = TcpStoreChannel::join(mine, kWait);
      if (!channel.ok()) return channel.error().message;
      const Status met = (*channel)->barrier(kWait);
      if (!met.ok()) return met.error().message;
      const Status left = (*channel)->leave(kWait);
      return left.ok() ? "" : left.error().message;
    });
}

}  // namespace
}  // namespace piper::hal
