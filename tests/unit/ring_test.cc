#include <catch2/catch.hpp>

#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>

#include "runtime/trace/ring_writer.h"
#include "schemas/live/positions.h"
#include "schemas/live/ring.h"
#include "tests/unit/temp_folder.h"

namespace piper {
namespace {

using live::EventKind;
using live::TrackKind;

const std::string kDigest = "0123456789abcdef0123456789abcdef0123456789abcdeffedcba9876543210";

std::unique_ptr<trace::RingWriter> writer(const std::string& folder, int32_t streams = 2) {
  auto made = trace::RingWriter::make(folder, {1, 4, kDigest, streams});
  REQUIRE(made.ok());
  return std::move(made).value();
}

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

uint64_t word_at(const std::string& bytes, uint64_t word) {
  uint64_t value = 0;
  std::memcpy(&value, bytes.data() + 8 * word, 8);
  return value;
}

TEST_CASE("a ring says whose it is and what its threads did last") {
  const TempFolder folder;
  const auto ring = writer(folder.path().string());
  ring->stream(1).instruction(7, false, true, 0, 42);
  ring->stream(1).instruction(7, true, false, 3, 5);
  ring->loader().event(EventKind::kRead, 9);
  const auto read = live::read_ring(ring->path());
  REQUIRE(read.ok());
  CHECK(read->rank == 1);
  CHECK(read->world_size == 4);
  CHECK(read->process == getpid());
  CHECK(read->digest == kDigest);
  CHECK(read->tracks.size() == 5);
  const live::RingTrack* const stream = live::track_of(*read, TrackKind::kStream, 1);
  REQUIRE(stream != nullptr);
  REQUIRE(stream->events.size() == 2);
  CHECK(stream->events[0].instruction == 42);
  CHECK(stream->events[0].step == 7);
  CHECK_FALSE(stream->events[0].evaluation);
  CHECK(stream->events[0].computes);
  CHECK_FALSE(stream->events[1].computes);
  CHECK(stream->events[1].evaluation);
  CHECK(stream->events[1].batch == 3);
  CHECK(stream->events[0].time_ns <= stream->events[1].time_ns);
  const live::RingEvent* const loader = live::newest(*read, TrackKind::kLoader);
  REQUIRE(loader != nullptr);
  CHECK(loader->kind == EventKind::kRead);
  CHECK(live::newest(*read, TrackKind::kWriter) == nullptr);
}

TEST_CASE("a ring keeps the newest events, at least ten thousand, in their order") {
  const TempFolder folder;
  const int32_t streams = GENERATE(1, 3, 40);
  const auto ring = writer(folder.path().string(), streams);
  constexpr int32_t kMany = 40000;
  for (int32_t i = 0; i < kMany; ++i)
    for (int32_t s = 0; s < streams; ++s) ring->stream(s).instruction(i / 100, false, true, 0, i);
  const auto read = live::read_ring(ring->path());
  REQUIRE(read.ok());
  size_t kept = 0;
  for (const live::RingTrack& track : read->tracks) {
    kept += track.events.size();
    for (size_t e = 0; e < track.events.size(); ++e)
      CHECK(track.events[e].instruction == kMany - static_cast<int32_t>(track.events.size() - e));
  }
  CHECK(kept >= 10000);
  CHECK(bytes_of(ring->path()).size() <= live::kMaxRingBytes);
  const auto newest = live::read_newest(ring->path());
  REQUIRE(newest.ok());
  REQUIRE(newest->tracks.at(0).events.size() == 1);
  CHECK(newest->tracks.at(0).events[0].instruction == kMany - 1);
}

TEST_CASE("a ring says what message an instruction waits for") {
  const TempFolder folder;
  const auto ring = writer(folder.path().string());
  const trace::RingTrack stream = ring->stream(1);
  const auto exchange = [&] { return live::track_of(*live::read_ring(ring->path()), TrackKind::kStream, 1)->exchange; };
  stream.instruction(7, false, false, 0, 42);
  CHECK(exchange() == live::RingExchange());
  stream.exchange(2, true, true, 3);
  CHECK(exchange() == live::RingExchange{2, true, true, 3});
  CHECK(live::read_newest(ring->path())->tracks.at(1).exchange.peer == 3);
  stream.exchange(2, false, false, 0);
  CHECK(exchange() == live::RingExchange{2, false, false, -1});
  stream.exchange(live::kExchangeNumbers + 5, true, false, 0);
  CHECK(exchange() == live::RingExchange{live::kExchangeNumbers - 1, true, false, 0});
  // The next instruction has waited for nothing yet, nor has a stream that is done.
  stream.instruction(7, false, false, 0, 43);
  CHECK(exchange() == live::RingExchange());
  stream.instruction(7, false, false, 0, -1);
  stream.exchange(1, true, true, 2);
  CHECK(exchange() == live::RingExchange());
  stream.instruction(8, false, false, 0, 1);
  stream.exchange(1, true, true, 4);  // of four ranks
  CHECK(live::read_ring(ring->path()).error().code == "R0911");
}

TEST_CASE("sections count steps and know the longest") {
  const TempFolder folder;
  const auto ring = writer(folder.path().string());
  ring->host(EventKind::kStarting, 0);
  for (int64_t step = 1; step <= 3; ++step) {
    ring->host(EventKind::kData, step);
    ring->host(EventKind::kStep, step);
    ring->host(EventKind::kReport, step);
  }
  ring->host(EventKind::kSave, 3);
  ring->host(EventKind::kEnding, 3);
  const auto read = live::read_ring(ring->path());
  REQUIRE(read.ok());
  const auto count = [&](live::Section section) { return read->sections.at(static_cast<size_t>(section)).count; };
  CHECK(count(live::Section::kStart) == 1);
  CHECK(count(live::Section::kFirstStep) == 1);
  CHECK(count(live::Section::kStep) == 2);
  CHECK(count(live::Section::kCheckpoint) == 1);
  CHECK(count(live::Section::kEvaluation) == 0);
  CHECK(read->sections.at(static_cast<size_t>(live::Section::kStep)).longest_ns > 0);
}

// The reader may meet the writer anywhere; what it returns was written.
TEST_CASE("a ring is read while it is written") {
  const TempFolder folder;
  const auto ring = writer(folder.path().string(), 1);
  std::atomic<bool> ends{false};
  std::thread writes([&] {
    for (int32_t i = 0; !ends; ++i) ring->stream(0).instruction(i, false, true, 0, i & 0x7fff'ffff);
  });
  while (live::read_newest(ring->path())->tracks.at(0).written < 2 * live::kRingEvents) std::this_thread::yield();
  for (int look = 0; look < 200; ++look) {
    const auto read = live::read_ring(ring->path());
    REQUIRE(read.ok());
    const std::vector<live::RingEvent>& events = read->tracks.at(0).events;
    for (size_t e = 0; e < events.size(); ++e) {
      REQUIRE(events[e].step == events[e].instruction);
      if (e > 0) REQUIRE(events[e].step == events[e - 1].step + 1);
    }
  }
  ends = true;
  writes.join();
}

TEST_CASE("a ring outlives its writer; another run's takes its place") {
  const TempFolder folder;
  const std::string path = writer(folder.path().string())->path();
  CHECK(live::read_ring(path).ok());
  const auto second = writer(folder.path().string(), 7);
  CHECK(live::read_ring(path)->tracks.size() == 10);
  const auto found = live::find_rings(folder.path().string());
  REQUIRE(found.ok());
  CHECK(*found == std::vector<std::string>{path});
}

TEST_CASE("a rank without a folder has a ring of its own") {
  const auto ring = writer("");
  ring->stream(0).instruction(1, false, true, 0, 2);
  const auto read = live::read_ring(ring->path());
  REQUIRE(read.ok());
  CHECK(live::newest(*read, TrackKind::kStream)->instruction == 2);
}

TEST_CASE("where a ring has no place, the rank is refused") {
  const TempFolder folder;
  const std::string file = folder.write("file", "");
  const auto made = trace::RingWriter::make(file + "/rings", {0, 1, kDigest, 1});
  REQUIRE_FALSE(made.ok());
  CHECK(made.error().code == "R0912");
}

TEST_CASE("damaged rings are refused, or read without what is damaged") {
  const TempFolder folder;
  const auto ring = writer(folder.path().string());
  for (int32_t i = 0; i < 20; ++i) ring->stream(0).instruction(1, false, true, 0, i);
  const std::string whole = bytes_of(ring->path());
  const auto reads = [&](const std::string& bytes) { return live::read_ring(folder.write("damaged.ring", bytes)); };
  const auto refused = [&](const std::string& bytes) {
    const auto read = reads(bytes);
    return !read.ok() && read.error().code == "R0911";
  };
  CHECK(reads(whole).ok());
  CHECK(refused(""));
  CHECK(refused("piprring"));
  for (const size_t end : {size_t{100}, size_t{511}, size_t{600}, whole.size() - 1})
    CHECK(refused(whole.substr(0, end)));
  CHECK(refused(whole + std::string(8, '\0')));
  const auto with_word = [&](uint64_t word, uint64_t value) {
    std::string changed = whole;
    std::memcpy(changed.data() + 8 * word, &value, 8);
    return changed;
  };
  for (const uint64_t value : {uint64_t{0}, uint64_t{3}, uint64_t{1} << 40, ~uint64_t{0}}) {
    for (const uint64_t word : {uint64_t{0}, uint64_t{1}, uint64_t{2}, uint64_t{4}, uint64_t{8}, uint64_t{9}})
      if (value != word_at(whole, word) && !(word == 4 && value == 3)) CHECK(refused(with_word(word, value)));
    // Numbers of events, and events, that nobody wrote: whatever is returned is inside of what can be.
    for (uint64_t word = live::kHeaderWords; word < live::kHeaderWords + 40; ++word) {
      const auto read = reads(with_word(word, value));
      if (!read.ok()) CHECK(read.error().code == "R0911");
    }
    for (uint64_t place = 0; place < 60; ++place) {
      const auto read = reads(with_word(live::kHeaderWords + 5 * live::kTrackWords + place, value));
      REQUIRE(read.ok());
      for (const live::RingEvent& event : read->tracks.at(0).events) {
        CHECK(event.instruction >= -1);
        CHECK(static_cast<int>(event.kind) < live::kNumEventKinds);
        CHECK(event.step >= 0);
      }
    }
  }
  CHECK(live::read_ring(folder / "missing.ring").error().code == "R0911");
  CHECK(live::read_ring(folder.path().string()).error().code == "R0911");
  CHECK(live::find_rings(folder / "missing").error().code == "R0911");
}

TEST_CASE("a copy keeps what the process did") {
  const TempFolder folder;
  const auto ring = writer(folder.path().string());
  auto read = live::read_ring(ring->path());
  REQUIRE(read.ok());
  live::look_at_process_of(*read);
  CHECK((read->process_state == 'R' || read->process_state == 'S'));
  read->process_state = 'T';
  REQUIRE(live::mark_copy(ring->path(), *read, 12345).ok());
  auto copy = live::read_ring(ring->path());
  REQUIRE(copy.ok());
  live::look_at_process_of(*copy);
  CHECK(copy->process_state == 'T');
  CHECK(copy->seen_ns == 12345);
  copy->process_state = 0;
  copy->process_start += 1;
  live::look_at_process_of(*copy);
  CHECK(copy->process_state == 'X');
}

}  // namespace
}  // namespace piper
