#include "tests/conformance/control_channel_cases.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <thread>

namespace piper::hal {

namespace {

int rounds_of(int32_t ranks) {
  int rounds = 0;
  while (1 << rounds < ranks) ++rounds;
  return rounds;
}

// Texts of many sizes, also empty ones.
std::string text_of(int32_t rank) {
  return std::string(static_cast<size_t>(rank % 3 * 1000 + rank / 3), static_cast<char>('a' + rank));
}

std::string long_text(size_t bytes, int32_t rank) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>((i + static_cast<size_t>(rank)) % 251);
  return text;
}

}  // namespace

void run_on_threads(int32_t ranks, const std::function<std::string(int32_t rank)>& body) {
  std::vector<std::string> wrong(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int32_t r = 0; r < ranks; ++r) threads.emplace_back([&, r] { wrong[static_cast<size_t>(r)] = body(r); });
  for (std::thread& thread : threads) thread.join();
  for (int32_t r = 0; r < ranks; ++r) {
    INFO("rank " << r << " of " << ranks);
    CHECK(wrong[static_cast<size_t>(r)] == "");
  }
}

void every_rank_gets_every_text(const RunEverywhere& run) {
  for (const int32_t ranks : {1, 2, 3, 5, 8, 13}) {
    const auto sent = run(ranks, [&](ControlChannel& c) -> std::string {
      const auto all = c.allgather(text_of(c.rank()), kWait);
      if (!all.ok()) return all.error().message;
      if (all->size() != static_cast<size_t>(ranks)) return "texts are missing";
      for (int32_t r = 0; r < ranks; ++r)
        if ((*all)[static_cast<size_t>(r)] != text_of(r)) return "the text of rank " + std::to_string(r) + " differs";
      return "";
    });
    if (sent) CHECK(*sent == 2 * ranks * rounds_of(ranks));  // the sizes, then the bytes
  }
}

void nobody_passes_a_barrier_early(const RunEverywhere& run) {
  constexpr int kBarriers = 20;
  for (const int32_t ranks : {1, 2, 3, 5, 8, 13}) {
    std::atomic<int> come{0};
    const auto sent = run(ranks, [&](ControlChannel& c) -> std::string {
      for (int barrier = 1; barrier <= kBarriers; ++barrier) {
        ++come;
        if (const Status status = c.barrier(kWait); !status.ok()) return status.error().message;
        if (come < barrier * ranks) return "a rank passed before all had come";
      }
      return "";
    });
    if (sent) CHECK(*sent == kBarriers * ranks * rounds_of(ranks));
  }
}

void a_size_that_cannot_be_is_refused(const RunEverywhere& run) {
  (void)run(2, [](ControlChannel& c) -> std::string {
    if (c.rank() == 1) {
      uint64_t mine = uint64_t{1} << 62, theirs = 0;
      if (!c.send(0, &mine, sizeof mine, kWait).ok()) return "the size was not sent";
      return c.receive(0, &theirs, sizeof theirs, kWait).ok() ? "" : "the other size did not come";
    }
    const auto all = c.allgather("text", kWait);
    if (all.ok()) return "2^62 bytes passed";
    return all.error().code == "R0303" && all.error().message.find("rank 1 has more than") == 0 ? ""
                                                                                                : all.error().message;
  });
}

void a_long_message_arrives(const RunEverywhere& run) {
  const std::string expected = long_text((size_t{40} << 20) + 5, 0);
  const auto bytes = static_cast<int64_t>(expected.size());
  const auto sent = run(2, [&](ControlChannel& c) -> std::string {
    if (c.rank() == 0) return c.send(1, expected.data(), bytes, kWait).ok() ? "" : "it was not sent";
    std::string received(expected.size(), 'x');
    if (!c.receive(0, received.data(), bytes, kWait).ok()) return "it did not come";
    return received == expected ? "" : "it differs";
  });
  if (sent) CHECK(*sent == 3);
}

void long_texts_go_around(const RunEverywhere& run) {
  constexpr size_t kBytes = (size_t{6} << 20) + 3;
  (void)run(3, [&](ControlChannel& c) -> std::string {
    const auto all = c.allgather(long_text(kBytes, c.rank()), kWait);
    if (!all.ok()) return all.error().message;
    for (int32_t r = 0; r < 3; ++r)
      if ((*all)[static_cast<size_t>(r)] != long_text(kBytes, r)) return "a text differs";
    return "";
  });
}

}  // namespace piper::hal
