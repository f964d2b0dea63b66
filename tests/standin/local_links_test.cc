// Transfers between GPUs of one process, on the stand-in.
#include "runtime/hal/cuda/local_links.h"

#include <catch2/catch.hpp>

#include "tests/standin/standin.h"

namespace piper::standin {
namespace {

class NoExchange : public hal::Exchange {
  Status run(const hal::WaitControl&) override { return hal::stopped(); }
  void resize(size_t, int64_t) override {}
};

// Nobody is at its other end.
class Alone : public hal::Transport {
 public:
  int32_t rank() const override { return 0; }
  int32_t world_size() const override { return 2; }
  std::unique_ptr<hal::Exchange> prepare(std::vector<hal::Transfer> transfers) override {
    for (const hal::Transfer& transfer : transfers) told.push_back(transfer.data);
    return std::make_unique<NoExchange>();
  }
  int64_t buffer_bytes() const override { return 0; }
  void keep(std::shared_ptr<const void> memory) override { kept.push_back(std::move(memory)); }

  std::vector<std::byte*> told;  // where messages are read and written
  std::vector<std::shared_ptr<const void>> kept;
};

// Whatever fails elsewhere, and whenever: the other rank may be about to wait for an event that it knows of.
TEST_CASE("what two ranks tell each other of a transfer outlives the command") {
  Alone transport;
  {
    const hal::MadeCommand command = hal::local_exchange(transport, {{hal::Direction::kSend, 1, 0, {}, 0}});
    REQUIRE(command.ok());
  }
  REQUIRE(transport.kept.size() == 1);
  CHECK(transport.kept[0].use_count() == 1);  // the command has gone
  CHECK(transport.told.size() == 2);
}

}  // namespace
}  // namespace piper::standin
