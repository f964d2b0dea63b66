// Spikes of the loss, by the rule that loss_spikes.h cites.
#include "runtime/trace/loss_spikes.h"

#include <catch2/catch.hpp>

#include <limits>

namespace piper::trace {
namespace {

// Two values by turns: their mean is `mean`, their standard deviation `deviation`.
void add_by_turns(LossSpikes& spikes, int losses, double mean, double deviation) {
  for (int i = 0; i < losses; ++i) spikes.add(i % 2 == 0 ? mean + deviation : mean - deviation);
}

TEST_CASE("a loss far above those before it is a spike") {
  LossSpikes spikes;
  add_by_turns(spikes, 200, 1000, 0.5);
  CHECK(spikes.count() == 0);
  spikes.add(1000 + 0.5 * 6.9);
  CHECK(spikes.count() == 0);
  spikes.add(1000 + 0.5 * 9);  // the one before is among those that it is judged by
  CHECK(spikes.count() == 1);
}

TEST_CASE("a loss far below is none, nor one that is no number") {
  LossSpikes spikes;
  add_by_turns(spikes, 200, 3, 0.1);
  spikes.add(0);
  spikes.add(std::numeric_limits<double>::quiet_NaN());
  spikes.add(std::numeric_limits<double>::infinity());
  CHECK(spikes.count() == 0);
  spikes.add(30);
  CHECK(spikes.count() == 1);
}

TEST_CASE("the first losses are not judged") {
  LossSpikes spikes;
  add_by_turns(spikes, static_cast<int>(LossSpikes::kFirst) - 1, 3, 0.1);
  spikes.add(30);
  CHECK(spikes.count() == 0);
}

TEST_CASE("losses that left the window are forgotten") {
  LossSpikes spikes;
  add_by_turns(spikes, 200, 100, 20);
  add_by_turns(spikes, static_cast<int>(LossSpikes::kWindow), 3, 0.1);
  const int64_t before = spikes.count();
  spikes.add(3.9);
  CHECK(spikes.count() == before + 1);
}

TEST_CASE("a loss that never changes has no spikes of rounding") {
  LossSpikes spikes;
  for (int i = 0; i < 300; ++i) spikes.add(0.1);
  CHECK(spikes.count() == 0);
}

}  // namespace
}  // namespace piper::trace
