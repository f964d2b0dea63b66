// Who is named, where the threads of a plan's ranks are in every way that a hang can leave them.
#include <catch2/catch.hpp>

#include <vector>

#include "schemas/live/wait_graph.h"
#include "tests/unit/hand_written_plans.h"

namespace piper::live {
namespace {

const std::string kDigest(64, '0');
constexpr int64_t kNow = 100'000'000'000;

RingEvent at(EventKind kind, int64_t step, int32_t instruction = -1) {
  RingEvent event;
  event.time_ns = kNow - 5'000'000'000;
  event.step = step;
  event.kind = kind;
  event.instruction = instruction;
  return event;
}
RingEvent runs(int64_t step, int32_t instruction) { return at(EventKind::kInstruction, step, instruction); }
RingEvent done(int64_t step) { return at(EventKind::kStreamDone, step); }

// A rank whose host and streams are at these events, its loader and writer idle.
Ring ring_at(int32_t rank, const RingEvent& host, const std::vector<RingEvent>& streams, int32_t world = 2) {
  Ring ring;
  ring.rank = rank;
  ring.world_size = world;
  ring.digest = kDigest;
  ring.process_state = 'S';
  for (size_t s = 0; s < streams.size(); ++s)
    ring.tracks.push_back({TrackKind::kStream, static_cast<int32_t>(s), 1, {streams[s]}});
  ring.tracks.push_back({TrackKind::kHost, 0, 1, {host}});
  ring.tracks.push_back({TrackKind::kLoader, 0, 1, {at(EventKind::kIdle, 0)}});
  ring.tracks.push_back({TrackKind::kWriter, 0, 1, {at(EventKind::kIdle, 0)}});
  return ring;
}
RingTrack& track(Ring& ring, TrackKind kind) {
  for (RingTrack& t : ring.tracks)
    if (t.kind == kind) return t;
  throw std::logic_error("no such track");
}

// Its stream waits for a message in exchange `number` of what it is at.
Ring waiting(Ring ring, size_t stream, int64_t number, bool receives, int32_t peer) {
  ring.tracks.at(stream).exchange = {number, true, receives, peer};
  return ring;
}

plan::Bundle pipeline() {
  plan::Bundle bundle = hand_written::pipeline();
  bundle.manifest.world_size = 2;
  return bundle;
}

Hang find(const plan::Bundle& bundle, const std::vector<Ring>& rings) {
  const auto hang = find_culprit(bundle, kDigest, rings, kNow);
  REQUIRE(hang.ok());
  INFO(hang->message);
  return *hang;
}

// Rank 0: compute runs 0, record 1, wait 6, run 7; pp waits 2, sends 3, receives 4, records 5.
// Rank 1: receives 0, runs 1, sends 2.

TEST_CASE("the rank that others wait for and that runs is slow") {
  const Hang hang = find(pipeline(), {ring_at(0, at(EventKind::kStep, 3), {runs(3, 6), runs(3, 4)}),
                                      ring_at(1, at(EventKind::kStep, 3), {runs(3, 1)})});
  CHECK(hang.culprit.cause == Cause::kSlow);
  CHECK(hang.culprit.rank == 1);
  CHECK(hang.culprit.instruction == 1);
  CHECK(hang.culprit.step == 3);
  CHECK(hang.culprit.stream == "compute");
  CHECK_FALSE(hang.culprit.origin.empty());
  CHECK(hang.message.find("rank 1 does not end step 3, instr 1") != std::string::npos);
  REQUIRE_FALSE(hang.waits.empty());
  CHECK(hang.waits[0].find("rank 0 waits at step 3, instr 4") != std::string::npos);
}

TEST_CASE("a stopped process is named whatever it was at") {
  for (const RingEvent& where : {runs(3, 0), runs(3, 1), runs(3, 2), done(2)}) {
    Ring stopped = ring_at(1, at(EventKind::kStep, where.step), {where});
    stopped.process_state = 'T';
    const Hang hang = find(pipeline(), {ring_at(0, at(EventKind::kStep, 3), {runs(3, 6), runs(3, 4)}), stopped});
    CHECK(hang.culprit.cause == Cause::kStopped);
    CHECK(hang.culprit.rank == 1);
  }
}

TEST_CASE("a process that is gone is named") {
  Ring gone = ring_at(0, at(EventKind::kStep, 3), {runs(3, 0), runs(3, 2)});
  gone.process_state = 'X';
  const Hang hang = find(pipeline(), {gone, ring_at(1, at(EventKind::kStep, 3), {runs(3, 0)})});
  CHECK(hang.culprit.cause == Cause::kGone);
  CHECK(hang.culprit.rank == 0);
}

TEST_CASE("a message whose sender has gone on is missing") {
  const Hang hang = find(pipeline(), {ring_at(0, at(EventKind::kStep, 3), {runs(3, 6), runs(3, 4)}),
                                      waiting(ring_at(1, at(EventKind::kStep, 3), {runs(3, 0)}), 0, 1, true, 0)});
  CHECK(hang.culprit.cause == Cause::kMessage);
  CHECK(hang.culprit.rank == 0);
  CHECK(hang.culprit.peer == 1);
  CHECK(hang.culprit.instruction == 3);
  CHECK(hang.message.find("the message of rank 0 to rank 1") != std::string::npos);
}

TEST_CASE("so is one that both ends are at") {
  const Ring sender = ring_at(0, at(EventKind::kStep, 3), {runs(3, 6), runs(3, 3)}),
             receiver = ring_at(1, at(EventKind::kStep, 3), {runs(3, 0)});
  for (const bool both : {false, true}) {
    const Hang hang =
        find(pipeline(), {waiting(sender, 1, 1, false, 1), both ? waiting(receiver, 0, 1, true, 0) : receiver});
    CHECK(hang.culprit.cause == (both ? Cause::kMessage : Cause::kSlow));
    CHECK(hang.culprit.rank == (both ? 0 : 1));
    CHECK(hang.culprit.peer == (both ? 1 : -1));
  }
}

TEST_CASE("a rank that has not begun the step is asked why") {
  const Ring waits = ring_at(1, at(EventKind::kStep, 4), {runs(4, 0)});
  SECTION("its loader reads") {
    Ring late = ring_at(0, at(EventKind::kData, 4), {done(3), done(3)});
    track(late, TrackKind::kLoader).events = {at(EventKind::kRead, 4)};
    const Hang hang = find(pipeline(), {late, waits});
    CHECK(hang.culprit.cause == Cause::kLoader);
    CHECK(hang.culprit.rank == 0);
  }
  SECTION("its checkpoint is not written") {
    Ring late = ring_at(0, at(EventKind::kSave, 3), {done(3), done(3)});
    track(late, TrackKind::kWriter).events = {at(EventKind::kWrite, 2)};
    const Hang hang = find(pipeline(), {late, waits});
    CHECK(hang.culprit.cause == Cause::kDisk);
    CHECK(hang.culprit.rank == 0);
  }
  SECTION("the log is not written") {
    const Hang hang = find(pipeline(), {ring_at(0, at(EventKind::kReport, 3), {done(3), done(3)}), waits});
    CHECK(hang.culprit.cause == Cause::kDisk);
    CHECK(hang.culprit.rank == 0);
  }
}

TEST_CASE("writers of a checkpoint wait for the one that has told less") {
  Ring first = ring_at(0, at(EventKind::kSave, 3), {done(3), done(3)}),
       second = ring_at(1, at(EventKind::kSave, 3), {done(3)});
  track(first, TrackKind::kWriter) = {TrackKind::kWriter, 0, 8, {at(EventKind::kGather, 2)}};
  track(second, TrackKind::kWriter) = {TrackKind::kWriter, 0, 7, {at(EventKind::kWrite, 2)}};
  const Hang hang = find(pipeline(), {first, second});
  CHECK(hang.culprit.cause == Cause::kDisk);
  CHECK(hang.culprit.rank == 1);
}

TEST_CASE("nobody waits for a rank that has ended") {
  Ring first = ring_at(0, at(EventKind::kEnded, 3), {done(3), done(3)}),
       second = ring_at(1, at(EventKind::kEnded, 3), {done(3)});
  first.process_state = second.process_state = 'X';
  CHECK(find(pipeline(), {first, second}).message.find("nothing in the rings waits") == 0);
}

// The other stream of the rank has begun the step already.
TEST_CASE("a stream whose thread was not woken is slow") {
  const Hang hang = find(pipeline(), {ring_at(0, at(EventKind::kStep, 3), {runs(3, 6), runs(2, 4)}),
                                      ring_at(1, at(EventKind::kStep, 3), {runs(3, 0)})});
  CHECK(hang.culprit.cause == Cause::kSlow);
  CHECK(hang.culprit.rank == 0);
}

// As where replicas are compared, after the log.
TEST_CASE("hosts that wait for messages of each other lead to the one that keeps them") {
  const auto meets = [](int32_t rank, EventKind kind, int64_t number, int32_t peer) {
    Ring ring = ring_at(rank, at(kind, 3), rank == 0 ? std::vector{done(3), done(3)} : std::vector{done(3)});
    track(ring, TrackKind::kHost).exchange = {number, peer >= 0, peer >= 0, peer};
    return ring;
  };
  const Ring waits = meets(0, EventKind::kReport, 2, 1);
  SECTION("it is in a kernel") {
    const Hang hang = find(pipeline(), {waits, ring_at(1, at(EventKind::kStep, 3), {runs(3, 1)})});
    CHECK(hang.culprit.cause == Cause::kSlow);
    CHECK(hang.culprit.rank == 1);
    CHECK(hang.culprit.instruction == 1);
  }
  SECTION("it has not come to the exchange, and writes the log") {
    for (const int64_t number : {0, 2}) {
      const Hang hang = find(pipeline(), {waits, meets(1, EventKind::kReport, number, -1)});
      CHECK(hang.culprit.cause == Cause::kDisk);
      CHECK(hang.culprit.rank == 1);
    }
  }
  SECTION("its message is lost: it waits in a later exchange, or in a later meeting") {
    for (const auto& [kind, number] : {std::pair(EventKind::kReport, 3), std::pair(EventKind::kSave, 1)}) {
      const Hang hang = find(pipeline(), {waits, meets(1, kind, number, 0)});
      CHECK(hang.culprit.cause == Cause::kMessage);
      CHECK(hang.culprit.rank == 1);
      CHECK(hang.culprit.peer == 0);
    }
  }
  SECTION("it is stopped") {
    Ring stopped = meets(1, EventKind::kReport, 2, 0);
    stopped.process_state = 'T';
    CHECK(find(pipeline(), {waits, stopped}).culprit.rank == 1);
    CHECK(find(pipeline(), {waits}).culprit.cause == Cause::kUnseen);
  }
}

TEST_CASE("hosts that meet wait for the one that is behind") {
  const Hang hang = find(pipeline(), {ring_at(0, at(EventKind::kAgree, 3), {done(3), done(3)}),
                                      ring_at(1, at(EventKind::kReport, 3), {done(3)})});
  CHECK(hang.culprit.cause == Cause::kDisk);
  CHECK(hang.culprit.rank == 1);
}

// As on a GPU.
TEST_CASE("where no stream tells what it has reached, the steps of the hosts do") {
  const Ring first = ring_at(0, at(EventKind::kStep, 4), {});
  const Hang hang = find(pipeline(), {first, ring_at(1, at(EventKind::kReport, 3), {})});
  CHECK(hang.culprit.cause == Cause::kDisk);
  CHECK(hang.culprit.rank == 1);
  const Hang on_device = find(pipeline(), {first, ring_at(1, at(EventKind::kStep, 4), {})});
  CHECK(on_device.culprit.cause == Cause::kSlow);
  CHECK(on_device.culprit.instruction == -1);
}

TEST_CASE("a rank without a ring is named where it is waited for") {
  const Hang hang = find(pipeline(), {ring_at(0, at(EventKind::kStep, 3), {runs(3, 6), runs(3, 4)})});
  CHECK(hang.culprit.cause == Cause::kUnseen);
  CHECK(hang.culprit.rank == 1);
}

TEST_CASE("a thread that should go on is a bug") {
  const Hang hang = find(pipeline(), {ring_at(0, at(EventKind::kStep, 3), {runs(3, 6), done(3)}),
                                      ring_at(1, at(EventKind::kStep, 3), {done(3)})});
  CHECK(hang.culprit.cause == Cause::kBug);
  CHECK(hang.culprit.rank == 0);
  CHECK(hang.culprit.instruction == 6);
}

TEST_CASE("a collective waits for the members that are not there") {
  plan::Bundle bundle = hand_written::replicas();
  bundle.manifest.world_size = 2;
  int32_t reduce = -1;
  for (size_t i = 0; i < bundle.ranks[0].instructions.size(); ++i)
    if (std::holds_alternative<plan::AllReduce>(bundle.ranks[0].instructions[i].action) && reduce < 0)
      reduce = static_cast<int32_t>(i);
  REQUIRE(reduce >= 0);
  const int32_t stream = bundle.ranks[0].instructions[static_cast<size_t>(reduce)].stream;
  REQUIRE(stream == 1);
  const Ring there = ring_at(0, at(EventKind::kStep, 3), {done(3), runs(3, reduce)});
  SECTION("one still computes") {
    const Hang hang = find(bundle, {there, ring_at(1, at(EventKind::kStep, 3), {runs(3, 0), runs(3, reduce - 1)})});
    CHECK(hang.culprit.cause == Cause::kSlow);
    CHECK(hang.culprit.rank == 1);
    CHECK(hang.culprit.instruction == 0);
  }
  const Ring too = ring_at(1, at(EventKind::kStep, 3), {done(3), runs(3, reduce)});
  SECTION("all are there, and one waits for a message of the other") {
    for (const int64_t ahead : {2, 3}) {
      const Hang hang = find(bundle, {waiting(there, 1, 2, true, 1), waiting(too, 1, ahead, true, 0)});
      CHECK(hang.culprit.cause == Cause::kMessage);
      CHECK(hang.culprit.instruction == reduce);
      if (ahead == 2) continue;  // each waits for the other: either message may be the one
      CHECK(hang.culprit.rank == 1);
      CHECK(hang.culprit.peer == 0);
    }
  }
  SECTION("the other is an exchange behind, and computes") {
    Ring behind = too;
    behind.tracks.at(1).exchange.number = 1;
    const Hang hang = find(bundle, {waiting(there, 1, 2, true, 1), behind});
    CHECK(hang.culprit.cause == Cause::kSlow);
    CHECK(hang.culprit.rank == 1);
    CHECK(hang.culprit.instruction == reduce);
  }
  SECTION("it has ended the collective") {
    const Hang hang =
        find(bundle, {waiting(there, 1, 2, true, 1), ring_at(1, at(EventKind::kStep, 3), {done(3), done(3)})});
    CHECK(hang.culprit.cause == Cause::kMessage);
    CHECK(hang.culprit.rank == 1);
    CHECK(hang.culprit.peer == 0);
  }
  SECTION("a rank that takes no part is not believed to be waited for") {
    const Hang hang = find(bundle, {waiting(there, 1, 2, true, 5), too});
    CHECK(hang.culprit.cause == Cause::kSlow);
  }
}

TEST_CASE("rings of another run are refused") {
  const plan::Bundle bundle = pipeline();
  const auto refused = [&](const std::vector<Ring>& rings, const std::string& words) {
    const auto hang = find_culprit(bundle, kDigest, rings, kNow);
    REQUIRE_FALSE(hang.ok());
    CHECK(hang.error().code == "R0911");
    CHECK(hang.error().message.find(words) != std::string::npos);
  };
  Ring ring = ring_at(0, at(EventKind::kStep, 3), {runs(3, 6), runs(3, 4)});
  refused({ring, ring}, "is there twice");
  Ring other = ring;
  other.digest = std::string(64, '1');
  refused({other}, "another bundle");
  other = ring;
  other.world_size = 3;
  refused({other}, "is of 3 ranks");
  other = ring;
  other.tracks.pop_back();
  other.tracks.pop_back();
  other.tracks.pop_back();
  refused({other}, "no track of its host");
}

// What a reader lets through need not fit the plan.
TEST_CASE("events that no instruction of the plan fits are no events") {
  const plan::Bundle bundle = pipeline();
  for (const int32_t instruction : {-1, 6, 1000, 0x7fff'ffff})
    for (const bool evaluation : {false, true}) {
      RingEvent wild = runs(3, instruction);
      wild.evaluation = evaluation;
      Ring ring = ring_at(0, at(EventKind::kStep, 3), {runs(3, 6), wild});
      ring.tracks.push_back({TrackKind::kStream, 99, 1, {wild}});
      const auto hang = find_culprit(bundle, kDigest, {ring, ring_at(1, at(EventKind::kEvaluate, 3), {wild})}, kNow);
      CHECK(hang.ok());
    }
}

}  // namespace
}  // namespace piper::live
