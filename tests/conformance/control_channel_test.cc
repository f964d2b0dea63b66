// The control channel over the in-process transport: what they carry, and in how many messages.
#include <catch2/catch.hpp>

#include <atomic>
#include <functional>
#include <thread>

#include "runtime/hal/local/local_transport.h"
#include "runtime/hal/transport_channel.h"

namespace piper::hal {
namespace {

const WaitControl kWait{nullptr, std::chrono::seconds(60)};

// Counts the messages that a rank sends.
class Counting : public Transport {
 public:
  Counting(std::unique_ptr<Transport> below, std::atomic<int>& sent) : below_(std::move(below)), sent_(sent) {}
  int32_t rank() const override { return below_->rank(); }
  int32_t world_size() const override { return below_->world_size(); }
  std::unique_ptr<Exchange> prepare(std::vector<Transfer> transfers) override {
    for (const Transfer& t : transfers) sent_ += t.direction == Direction::kSend ? 1 : 0;
    return below_->prepare(std::move(transfers));
  }
  int64_t buffer_bytes() const override { return 0; }

 private:
  std::unique_ptr<Transport> below_;
  std::atomic<int>& sent_;
};

// Runs `body`, which returns what is wrong, on every rank of a world. The number of messages that were sent.
int run_everywhere(int32_t ranks, const std::function<std::string(Transport&)>& body) {
  LocalWorld world(ranks);
  std::atomic<int> sent{0};
  std::vector<std::string> wrong(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int32_t r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      Counting transport(world.transport(r), sent);
      wrong[static_cast<size_t>(r)] = body(transport);
    });
  for (std::thread& thread : threads) thread.join();
  for (int32_t r = 0; r < ranks; ++r) {
    INFO("rank " << r << " of " << ranks);
    CHECK(wrong[static_cast<size_t>(r)] == "");
  }
  return sent;
}

int rounds_of(int32_t ranks) {
  int rounds = 0;
  while (1 << rounds < ranks) ++rounds;
  return rounds;
}

// Texts of many sizes, also empty ones.
std::string text_of(int32_t rank) {
  return std::string(static_cast<size_t>(rank % 3 * 1000 + rank / 3), static_cast<char>('a' + rank));
}

TEST_CASE("every rank gets every text, in about log N messages a rank") {
  for (const int32_t ranks : {1, 2, 3, 5, 8, 13}) {
    const int sent = run_everywhere(ranks, [&](Transport& c) -> std::string {
      const auto all = TransportChannel(c).allgather(text_of(c.rank()), kWait);
      if (!all.ok()) return all.error().message;
      if (all->size() != static_cast<size_t>(ranks)) return "texts are missing";
      for (int32_t r = 0; r < ranks; ++r)
        if ((*all)[static_cast<size_t>(r)] != text_of(r)) return "the text of rank " + std::to_string(r) + " differs";
      return "";
    });
    CHECK(sent == 2 * ranks * rounds_of(ranks));  // the sizes, then the bytes
  }
}

TEST_CASE("no rank passes a barrier before all have come, in log N messages a rank") {
  constexpr int kBarriers = 20;
  for (const int32_t ranks : {1, 2, 3, 5, 8, 13}) {
    std::atomic<int> come{0};
    const int sent = run_everywhere(ranks, [&](Transport& c) -> std::string {
      for (int barrier = 1; barrier <= kBarriers; ++barrier) {
        ++come;
        if (const Status status = TransportChannel(c).barrier(kWait); !status.ok()) return status.error().message;
        if (come < barrier * ranks) return "a rank passed before all had come";
      }
      return "";
    });
    CHECK(sent == kBarriers * ranks * rounds_of(ranks));
  }
}

TEST_CASE("a text whose size cannot be is refused before there is room for it") {
  run_everywhere(2, [](Transport& c) -> std::string {
    if (c.rank() == 1) {
      uint64_t mine = uint64_t{1} << 62, theirs = 0;
      (void)c
          .prepare({{Direction::kSend, 0, kHostChannel, reinterpret_cast<std::byte*>(&mine), 8},
                    {Direction::kReceive, 0, kHostChannel, reinterpret_cast<std::byte*>(&theirs), 8}})
          ->run(kWait);
      return "";
    }
    const auto all = TransportChannel(c).allgather("text", kWait);
    if (all.ok()) return "2^62 bytes passed";
    return all.error().code == "R0303" && all.error().message.find("rank 1 has more than") == 0 ? ""
                                                                                                : all.error().message;
  });
}

TEST_CASE("a long message of the host arrives in pieces") {
  std::string expected((size_t{40} << 20) + 5, '\0');
  for (size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<char>(i % 251);
  const auto bytes = static_cast<int64_t>(expected.size());
  const int sent = run_everywhere(2, [&](Transport& c) -> std::string {
    if (c.rank() == 0) return TransportChannel(c).send(1, expected.data(), bytes, kWait).ok() ? "" : "it was not sent";
    std::string received(expected.size(), 'x');
    if (!TransportChannel(c).receive(0, received.data(), bytes, kWait).ok()) return "it did not come";
    return received == expected ? "" : "it differs";
  });
  CHECK(sent == 3);
}

}  // namespace
}  // namespace piper::hal
