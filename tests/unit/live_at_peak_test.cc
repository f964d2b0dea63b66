// What P0520 and piper-plan report of the arena: the buffers that are live where the most bytes are.
#include <catch2/catch.hpp>

#include "schemas/verify/live_at_peak.h"
#include "tests/unit/plan_bundle_example.h"

using namespace piper;

TEST_CASE("the buffers that are live at the peak fill it") {
  const plan::Bundle bundle = plan::example::pipeline(4, 8);
  for (const plan::RankPlan& plan : bundle.ranks) {
    const verify::LiveAtPeak peak = verify::live_at_peak(bundle, plan);
    REQUIRE(!peak.buffers.empty());
    CHECK(peak.instruction < plan.instructions.size());
    int64_t sum = 0, before = peak.bytes;
    for (const int32_t index : peak.buffers) {
      const plan::Buffer& buffer = plan.buffers[static_cast<size_t>(index)];
      CHECK(buffer.cls == plan::BufferClass::kArena);
      CHECK(buffer.bytes <= before);
      before = buffer.bytes;
      sum += buffer.bytes;
    }
    CHECK(sum == peak.bytes);
    CHECK(sum <= plan.arena_bytes);
  }
}
