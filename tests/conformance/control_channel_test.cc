// The control channel over the in-process transport: what it carries, and in how many messages.
#include <catch2/catch.hpp>

#include <atomic>

#include "runtime/hal/local/local_transport.h"
#include "runtime/hal/transport_channel.h"
#include "tests/conformance/control_channel_cases.h"

namespace piper::hal {
namespace {

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

std::optional<int> in_process(int32_t ranks, const RankBody& body) {
  LocalWorld world(ranks);
  std::atomic<int> sent{0};
  run_on_threads(ranks, [&](int32_t rank) {
    Counting transport(world.transport(rank), sent);
    TransportChannel channel(transport);
    return body(channel);
  });
  return sent.load();
}

TEST_CASE("every rank gets every text, in about log N messages a rank") { every_rank_gets_every_text(in_process); }

TEST_CASE("no rank passes a barrier before all have come, in log N messages a rank") {
  nobody_passes_a_barrier_early(in_process);
}

TEST_CASE("a text whose size cannot be is refused before there is room for it") {
  a_size_that_cannot_be_is_refused(in_process);
}

TEST_CASE("a long message of the host arrives in pieces") { a_long_message_arrives(in_process); }

TEST_CASE("long texts go around a ring of ranks") { long_texts_go_around(in_process); }

}  // namespace
}  // namespace piper::hal
