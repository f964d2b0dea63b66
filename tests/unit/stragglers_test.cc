#include <catch2/catch.hpp>

#include "schemas/live/stragglers.h"

namespace piper::live {
namespace {

// A ring of `steps` steps, each of 10 ms, in which one stream computes for `busy_us` and waits for the rest.
Ring ring_of(int32_t rank, int64_t steps, int64_t busy_us) {
  constexpr int64_t kUs = 1000;
  Ring ring;
  ring.rank = rank;
  RingTrack stream{TrackKind::kStream, 0, 0, {}}, host{TrackKind::kHost, 0, 0, {}};
  for (int64_t step = 1; step <= steps; ++step) {
    const int64_t begin = step * 20'000 * kUs;
    const auto at = [&](int64_t us, EventKind kind) {
      RingEvent event;
      event.time_ns = begin + us * kUs;
      event.step = step;
      event.kind = kind;
      return event;
    };
    host.events.push_back(at(0, EventKind::kStep));
    host.events.push_back(at(10'000, EventKind::kReport));
    stream.events.push_back(at(0, EventKind::kInstruction));
    stream.events.back().computes = true;
    stream.events.push_back(at(busy_us, EventKind::kInstruction));
    stream.events.push_back(at(10'000, EventKind::kStreamDone));
  }
  stream.written = stream.events.size();
  ring.tracks = {stream, host};
  return ring;
}

TEST_CASE("the pace of a rank is what its streams compute in a step") {
  const Pace pace = pace_of(ring_of(3, 20, 4000));
  CHECK(pace.rank == 3);
  CHECK(pace.steps == 20);
  CHECK(pace.busy_ns == 4'000'000);
  CHECK(pace.step_ns == 10'000'000);
  CHECK(pace_of(Ring()).steps == 0);
}

TEST_CASE("a step of which events are lost is not counted") {
  Ring ring = ring_of(0, 20, 4000);
  ring.tracks[0].events.erase(ring.tracks[0].events.begin());
  CHECK(pace_of(ring).steps == 19);
}

TEST_CASE("a rank that becomes slow is told once, at the second look") {
  Stragglers stragglers;
  CHECK(stragglers.compare({ring_of(0, 20, 3000), ring_of(1, 20, 2000)}).empty());
  CHECK(stragglers.compare({ring_of(0, 20, 3100), ring_of(1, 20, 6000)}).empty());
  const auto lines = stragglers.compare({ring_of(0, 20, 3000), ring_of(1, 20, 6000)});
  REQUIRE(lines.size() == 1);
  CHECK(lines[0] == "rank 1 is slow: it computes 6 ms in a step of 10 ms, 3.0 times its best");
  CHECK(stragglers.compare({ring_of(0, 20, 3000), ring_of(1, 20, 6000)}).empty());
}

TEST_CASE("stages of different length, busy machines and trifles are no stragglers") {
  Stragglers stragglers;
  for (const int64_t by : {1, 1, 3, 3, 3})
    CHECK(stragglers.compare({ring_of(0, 20, 3000 * by), ring_of(1, 20, 500 * by)}).empty());
  Stragglers trifles;
  for (const int64_t us : {100, 300, 300, 300})
    CHECK(trifles.compare({ring_of(0, 20, 3000), ring_of(1, 20, us)}).empty());
  Stragglers few;
  for (const int64_t us : {1000, 5000, 5000, 5000})
    CHECK(few.compare({ring_of(0, 20, 3000), ring_of(1, 10, us)}).empty());
}

}  // namespace
}  // namespace piper::live
