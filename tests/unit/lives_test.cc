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

void add(emit::Trace& trace, int32_t stream, plan::Action action, const std::vector<Access>& accesses) {
  trace.instructions.push_back({{stream, std::move(action), -1}, static_cast<uint32_t>(trace.accesses.size())});
  trace.accesses.insert(trace.accesses.end(), accesses.begin(), accesses.end());
}

// A run writes the message, which is sent by the second instruction; passes follow, of which the first has the other
// buffer for itself.
emit::Trace sent_and_passes(uint32_t passes) {
  emit::Trace trace;
  add(trace, kCompute, plan::Run{}, {{kMessage, false, true}});
  add(trace, kSends, plan::Send{}, {{kMessage, true, false}});
  for (uint32_t pass = 0; pass < passes; ++pass) {
    add(trace, kCompute, plan::Run{}, pass == 0 ? std::vector<Access>{{kOther, true, true}} : std::vector<Access>{});
    trace.instructions.back().pass = true;
  }
  return trace;
}

emit::Lives lives_of_message(const emit::Trace& trace) {
  const std::array buffers = {kMessage};
  return emit::lives_of(trace, emit::data_order(trace, 2), buffers, 2);
}
std::array<uint32_t, emit::kMostPatience> soft_ends(const emit::Trace& trace) {
  const emit::Lives lives = lives_of_message(trace);
  REQUIRE(lives.soft.size() == 1);
  CHECK(lives.soft[0].life == 0);
  return lives.soft[0].ends;
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
  const emit::Trace trace = sent_and_passes(6);
  return emit::place_arena(plan, trace, emit::data_order(trace, 2), kAlignment);
}

}  // namespace

TEST_CASE("a life ends hard after its last access") {
  const plan::Life life = lives_of_message(sent_and_passes(6)).hard.at(0);
  CHECK(life.first == 0);
  CHECK(life.end == 2);
}

TEST_CASE("that of a message ends softly after so many passes") {
  CHECK(soft_ends(sent_and_passes(6)) == std::array<uint32_t, 4>{3, 4, 5, 6});
  CHECK(soft_ends(sent_and_passes(2)) == std::array<uint32_t, 4>{3, 4, 4, 4});  // the end: so many do not follow
}

TEST_CASE("runs that are no passes take no time") {
  emit::Trace trace = sent_and_passes(6);
  trace.instructions[2].pass = trace.instructions[4].pass = false;
  CHECK(soft_ends(trace) == std::array<uint32_t, 4>{4, 6, 7, 8});
}

TEST_CASE("or at the first run that knows that it is through") {
  emit::Trace trace = sent_and_passes(6);
  trace.ordered = {{3, 1}};
  CHECK(soft_ends(trace) == std::array<uint32_t, 4>{3, 3, 3, 3});
  trace.ordered = {{5, 1}};
  CHECK(soft_ends(trace) == std::array<uint32_t, 4>{3, 4, 5, 5});
  trace.ordered = {{2, 1}};
  CHECK(soft_ends(trace) == std::array<uint32_t, 4>{2, 2, 2, 2});
}

TEST_CASE("a run of the message's own stream takes no other stream's wait") {
  emit::Trace trace;
  add(trace, kCompute, plan::Run{}, {{kMessage, false, true}});
  add(trace, kSends, plan::Send{}, {{kMessage, true, false}});
  add(trace, kSends, plan::Run{}, {{kOther, false, true}});
  for (int pass = 0; pass < 5; ++pass) {
    add(trace, kCompute, plan::Run{}, {});
    trace.instructions.back().pass = true;
  }
  CHECK(soft_ends(trace) == std::array<uint32_t, 4>{4, 5, 6, 7});
}

TEST_CASE("bytes are kept for a message where that costs little") {
  const emit::Arena kept = arena(kAlignment, 100 * kAlignment);
  CHECK(kept.bytes == 101 * kAlignment);
  const emit::Arena handed_on = arena(3 * kAlignment, 100 * kAlignment);
  CHECK(handed_on.bytes == 100 * kAlignment);
  CHECK(handed_on.offsets[kMessage] < handed_on.offsets[kOther] + 100 * kAlignment);
}

// A message that has no room before a large buffer, and one that has room after it.
TEST_CASE("bytes are kept where there is room, whatever the fullest moment is") {
  constexpr int32_t kFirst = 0, kSecond = 1, kLarge = 2, kLater = 3;
  emit::Trace trace;
  const auto pass = [&](std::vector<Access> accesses) {
    add(trace, kCompute, plan::Run{}, accesses);
    trace.instructions.back().pass = true;
  };
  pass({{kFirst, false, true}});
  add(trace, kSends, plan::Send{}, {{kFirst, true, false}});
  pass({{kLarge, true, true}});
  pass({{kSecond, false, true}});
  add(trace, kSends, plan::Send{}, {{kSecond, true, false}});
  pass({{kLater, true, true}});
  plan::RankPlan plan;
  plan.streams = {{"compute"}, {"sends"}};
  for (const int64_t lines : {10, 10, 100, 10}) {
    plan::Buffer buffer;
    buffer.cls = plan::BufferClass::kArena;
    buffer.bytes = lines * kAlignment;
    plan.buffers.edit().push_back(buffer);
  }
  const emit::Arena placed = emit::place_arena(plan, trace, emit::data_order(trace, 4), kAlignment);
  const auto share = [&](int32_t a, int32_t b) {
    return placed.offsets[a] < placed.offsets[b] + plan.buffers[b].bytes &&
           placed.offsets[b] < placed.offsets[a] + plan.buffers[a].bytes;
  };
  CHECK(placed.bytes <= 102 * kAlignment);
  CHECK(share(kFirst, kLarge));
  CHECK(!share(kSecond, kLater));
}
