// From when to when buffers need their bytes, and what the bytes of messages are kept for.
#include <array>
#include <catch2/catch.hpp>

#include "compiler/emit/lives.h"
#include "compiler/emit/place_arena.h"

using namespace piper;
using emit::Access;

namespace {

constexpr int32_t kCompute = 0, kSends = 1, kMessage = 0, kOther = 1;
constexpr int64_t kAlignment = 64;

// A run writes the message, which is sent by the second instruction; runs follow, of which the third has the other
// buffer for itself.
emit::Trace sent_and_runs(uint32_t runs) {
  emit::Trace trace;
  const auto add = [&](int32_t stream, plan::Action action, std::vector<Access> accesses) {
    trace.instructions.push_back({{stream, std::move(action), -1}, static_cast<uint32_t>(trace.accesses.size())});
    trace.accesses.insert(trace.accesses.end(), accesses.begin(), accesses.end());
  };
  add(kCompute, plan::Run{}, {{kMessage, false, true}});
  add(kSends, plan::Send{}, {{kMessage, true, false}});
  for (uint32_t run = 0; run < runs; ++run)
    add(kCompute, plan::Run{}, run == 0 ? std::vector<Access>{{kOther, true, true}} : std::vector<Access>{});
  return trace;
}

plan::Life life_of_message(const emit::Trace& trace, int patience) {
  const std::array buffers = {kMessage};
  return emit::lives_of(trace, emit::data_order(trace, 2), buffers, 2, patience).at(0);
}

emit::Arena arena(int64_t message, int64_t other) {
  plan::RankPlan plan;
  plan.streams = {{"compute"}, {"sends"}};
  for (const int64_t bytes : {message, other}) {
    plan::Buffer buffer;
    buffer.cls = plan::BufferClass::kArena;
    buffer.bytes = bytes;
    plan.buffers.edit().push_back(buffer);
  }
  const emit::Trace trace = sent_and_runs(6);
  return emit::place_arena(plan, trace, emit::data_order(trace, 2), kAlignment);
}

}  // namespace

TEST_CASE("a life ends hard after its last access") {
  const plan::Life life = life_of_message(sent_and_runs(6), 0);
  CHECK(life.first == 0);
  CHECK(life.end == 2);
}

TEST_CASE("that of a message ends so many runs later") {
  for (const int patience : {1, 2, 4}) {
    INFO("patience " << patience);
    CHECK(life_of_message(sent_and_runs(6), patience).end == 2 + static_cast<uint32_t>(patience));
  }
  CHECK(life_of_message(sent_and_runs(3), 4).end == 5);  // never: so many runs do not follow
}

TEST_CASE("or at the first run that knows that it is through") {
  emit::Trace trace = sent_and_runs(6);
  trace.ordered = {{3, 1}};
  CHECK(life_of_message(trace, 4).end == 3);
  CHECK(life_of_message(trace, 1).end == 3);
  trace.ordered = {{2, 1}};
  CHECK(life_of_message(trace, 4).end == 2);
}

TEST_CASE("bytes are kept for a message where that costs little") {
  const emit::Arena kept = arena(kAlignment, 100 * kAlignment);
  CHECK(kept.bytes == 101 * kAlignment);
  const emit::Arena handed_on = arena(3 * kAlignment, 100 * kAlignment);
  CHECK(handed_on.bytes == 100 * kAlignment);
  CHECK(handed_on.offsets[kMessage] < handed_on.offsets[kOther] + 100 * kAlignment);
}
