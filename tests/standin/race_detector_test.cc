// Vector clocks: what is ordered is no race, and what is not is one, however it went.
#include <catch2/catch.hpp>

#include <cuda_runtime_api.h>

#include "runtime/hal/cuda/cuda_device.h"
#include "tests/standin/race_detector.h"
#include "tests/standin/script.h"

namespace piper::standin {
namespace {

Range bytes(uintptr_t from, size_t count) { return {reinterpret_cast<const void*>(from), count}; }

TEST_CASE("two lanes race where one of them writes the same bytes") {
  RaceDetector races;
  const Lane a = races.open_lane(), b = races.open_lane();
  races.operate(a, "a", {}, {bytes(100, 10)});
  races.operate(b, "beside", {bytes(90, 10)}, {bytes(110, 10)});
  CHECK(races.take_races().empty());
  races.operate(b, "b", {bytes(109, 10)}, {});
  CHECK(races.take_races() ==
        std::vector<std::string>{"nothing orders 'b', which reads, behind 'a', which writes the same 1 bytes"});
  // Reads alone are none.
  races.operate(a, "read by a", {bytes(500, 8)}, {});
  races.operate(b, "read by b", {bytes(504, 8)}, {});
  CHECK(races.take_races().empty());
  races.operate(b, "over it", {}, {bytes(498, 8)});
  CHECK(races.take_races() ==
        std::vector<std::string>{
            "nothing orders 'over it', which writes, behind 'read by a', which reads the same 4 bytes"});
}

TEST_CASE("what a lane learns is what it comes behind, and no more") {
  RaceDetector races;
  const Lane a = races.open_lane(), b = races.open_lane(), c = races.open_lane();
  races.operate(a, "first", {}, {bytes(0, 8)});
  const VectorClock event = races.clock(a);
  races.operate(a, "second", {}, {bytes(8, 8)});
  races.learn(b, event);
  races.operate(b, "behind first", {bytes(0, 8)}, {});
  CHECK(races.take_races().empty());
  races.learn(c, races.clock(b));  // by way of b
  races.operate(c, "over both", {}, {bytes(0, 8)});
  CHECK(races.take_races().empty());
  races.operate(b, "too early", {bytes(8, 8)}, {});
  CHECK(races.take_races().size() == 1);
}

TEST_CASE("a thread passes on what it waited for") {
  RaceDetector races;
  const Lane a = races.open_lane(), b = races.open_lane();
  races.operate(a, "write", {}, {bytes(0, 8)});
  races.enqueue(b);
  races.operate(b, "early", {bytes(0, 8)}, {});
  CHECK(races.take_races().size() == 1);
  races.host_learns(races.clock(a));
  races.operate(b, "still early", {bytes(0, 8)}, {});
  CHECK(races.take_races().size() == 1);
  races.enqueue(b);
  races.operate(b, "late enough", {bytes(0, 8)}, {});
  CHECK(races.take_races().empty());
}

TEST_CASE("memory that is handed out again has no past, and a lane that is opened again has none of others") {
  RaceDetector races;
  const Lane a = races.open_lane(), b = races.open_lane();
  races.operate(a, "write", {}, {bytes(0, 64)});
  races.forget(bytes(16, 16));
  races.operate(b, "other use", {}, {bytes(16, 16)});
  CHECK(races.take_races().empty());
  races.operate(b, "the rest", {}, {bytes(32, 1)});
  CHECK(races.take_races().size() == 1);
  races.learn(b, races.clock(a));
  races.close_lane(b);
  const Lane again = races.open_lane();
  CHECK(again == b);
  races.operate(again, "as new", {}, {bytes(0, 8)});
  CHECK(races.take_races().size() == 1);
}

#ifndef __SANITIZE_THREAD__  // to whom a race that was planted is one as well

// One queue makes what another takes. `event`: the order between them.
std::vector<std::string> races_of(bool graphs, bool event, int submissions) {
  Script script({.graphs = graphs}, 3);
  const hal::Address place = script.allocate(4096);
  hal::Event& made = script.event();
  script.add(1, script.device->fill(place, std::byte{1}, 64));
  if (event) script.add(1, script.device->record_event(made));
  if (event) script.add(2, script.device->wait_event(made));
  script.add(2, script.device->copy(place + 1024, place, 64));
  const auto recording = script.recorded();
  for (int i = 0; i < submissions; ++i) REQUIRE(script.submit(*recording) == "");
  return RaceDetector::instance().take_races();
}

TEST_CASE("an event that is missing between two queues is a race, in a graph as without one") {
  for (const bool graphs : {false, true}) {
    INFO((graphs ? "with graphs" : "without graphs"));
    CHECK(races_of(graphs, true, 3).empty());
    CHECK(races_of(graphs, false, 3) ==
          std::vector<std::string>{"nothing orders 'copy of 64 bytes', which reads, behind 'fill of 64 bytes', which "
                                   "writes the same 64 bytes"});
  }
}

// Memory of the device is written by another queue, and the host does not wait.
TEST_CASE("a copy of the host that waits for nothing is a race") {
  Script script({}, 2);
  const hal::Address place = script.allocate(4096);
  script.add(1, script.device->fill(place, std::byte{1}, 64));
  const auto recording = script.recorded();
  REQUIRE(recording->submit(script.wait, script, false).ok());
  std::byte read[64];
  REQUIRE(cudaMemcpy(read, place.in_device(), 64, cudaMemcpyDefault) == cudaSuccess);
  CHECK(RaceDetector::instance().take_races() ==
        std::vector<std::string>{
            "nothing orders 'cudaMemcpy', which reads, behind 'fill of 64 bytes', which writes the same 64 bytes"});
  REQUIRE(script.device->read(read, place, 64).ok());
  CHECK(RaceDetector::instance().take_races().empty());
}

#endif

// The staging place of a download is read by the host when it waited, and written again by the next copy.
TEST_CASE("uploads and downloads are ordered with the steps between them") {
  for (const bool graphs : {false, true}) {
    Script script({.graphs = graphs}, 2);
    const hal::Address place = script.allocate(4096);
    script.add(1, script.device->copy(place + 1024, place, 256));
    const auto recording = script.recorded();
    const auto upload = std::move(script.device->make_upload(place, 256)).value();
    const auto download = std::move(script.device->make_download(place + 1024, 256)).value();
    for (int step = 0; step < 3; ++step) {
      upload->begin()[0] = static_cast<std::byte>(step);
      REQUIRE(upload->commit().ok());
      REQUIRE(script.submit(*recording) == "");
      REQUIRE(download->begin().ok());
      CHECK(**download->wait() == static_cast<std::byte>(step));
    }
    CHECK(RaceDetector::instance().take_races().empty());
  }
}

}  // namespace
}  // namespace piper::standin
