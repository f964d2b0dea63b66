// What P0520 and piper-plan report of the arena: the buffers that are live where the most bytes are, and for how many
// runs bytes are kept for a message.
#include <catch2/catch.hpp>
#include <stdexcept>
#include <string>

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

TEST_CASE("the patience that a placement keeps to") {
  plan::Bundle bundle = plan::example::pipeline(2, 8);
  plan::RankPlan& plan = bundle.ranks[0];
  int64_t end = 0;
  for (plan::Buffer& buffer : plan.buffers.edit())
    if (buffer.cls == plan::BufferClass::kArena) {  // all bytes apart: nothing is ever handed on
      buffer.offset = end;
      end += 64 * ((buffer.bytes + 63) / 64);
    }
  plan.arena_bytes = end;
  const int64_t hard = verify::live_at_peak(bundle, plan).bytes;
  const verify::Patience apart = verify::patience_of(bundle, plan);
  CHECK(apart.runs == 4);
  CHECK(apart.bytes > hard);
  // Bytes of the first message that is sent go to what the next run writes.
  const auto index = [&](const std::string& name) {
    for (size_t b = 0; b < plan.buffers.size(); ++b)
      if (plan.buffers[b].name == name) return b;
    throw std::runtime_error("no buffer " + name);
  };
  plan.buffers.edit()[index("out PP0.F m1")].offset = plan.buffers[index("out PP0.F m0")].offset;
  const verify::Patience shared = verify::patience_of(bundle, plan);
  CHECK(shared.runs == 0);
  CHECK(shared.bytes == hard);
}
