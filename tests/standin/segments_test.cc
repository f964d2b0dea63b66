// Recordings as graphs: where they are cut, that each command is issued as often as it must be, and what a failure
// leaves.
#include <catch2/catch.hpp>

#include <algorithm>
#include <functional>
#include <future>
#include <thread>

#include "runtime/hal/cuda/cuda_check.h"
#include "runtime/hal/cuda/cuda_handles.h"
#include "runtime/hal/cuda/segments.h"
#include "tests/standin/script.h"
#include "tests/standin/standin.h"

namespace piper::standin {
namespace {

// Another command, whose issues are counted.
class Counted : public hal::Command {
 public:
  Counted(std::unique_ptr<hal::Command> command, int& issues, const char* prevents = nullptr)
      : command_(std::move(command)), issues_(issues), prevents_(prevents) {}
  Status issue(hal::Queue& queue, const hal::Submission& submission) override {
    ++issues_;
    return command_->issue(queue, submission);
  }
  const char* prevents_capture() const override { return prevents_; }

 private:
  std::unique_ptr<hal::Command> command_;
  int& issues_;
  const char* prevents_;
};

// A function at the moment of issuing.
class Issued : public hal::Command {
 public:
  explicit Issued(std::function<Status(cudaStream_t)> body) : body_(std::move(body)) {}
  Status issue(hal::Queue& queue, const hal::Submission&) override {
    return body_(static_cast<hal::CudaQueue&>(queue).stream());
  }

 private:
  std::function<Status(cudaStream_t)> body_;
};

// Place 0 is filled and goes from place to place, each copy on the next of three queues after an event. Copies that
// `direct` lists cannot be captured.
struct Hops {
  static constexpr int kHops = 6;
  explicit Hops(Script& script, const std::vector<int>& direct)
      : issues(kHops, 0), place(script.allocate((kHops + 1) * 64)) {
    std::vector<hal::Event*> done;
    for (int hop = 0; hop <= kHops; ++hop) done.push_back(&script.event());
    first = done[0];
    script.add(0, script.device->fill(place, std::byte{5}, 64));
    script.add(0, script.device->record_event(*first));
    for (int hop = 0; hop < kHops; ++hop) {
      const auto queue = static_cast<int32_t>((hop + 1) % 3);
      const auto index = static_cast<size_t>(hop);
      const bool prevents = std::find(direct.begin(), direct.end(), hop) != direct.end();
      script.add(queue, script.device->wait_event(*done[index]));
      script.add(queue, std::make_unique<Counted>(script.device->copy(at(hop + 1), at(hop), 64), issues[index],
                                                  prevents ? "it must not" : nullptr));
      script.add(queue, script.device->record_event(*done[index + 1]));
    }
  }
  hal::Address at(int hop) const { return place + hop * 64; }

  std::vector<int> issues;
  hal::Address place;
  hal::Event* first = nullptr;
};

std::vector<std::string> texts_of(const hal::Segments& cut) {
  std::vector<std::string> texts;
  for (const hal::Segment& segment : cut.list) {
    texts.push_back((segment.captured ? "graph " : "direct ") + std::to_string(segment.begin) + "-" +
                    std::to_string(segment.end) + " queues");
    for (const size_t queue : segment.queues) texts.back() += " " + std::to_string(queue);
  }
  return texts;
}

TEST_CASE("recordings are cut at what cannot be captured, and events alone make no graph") {
  Script script({}, 3);
  const Hops hops(script, {2, 3});
  // 0: fill, 1: record; hop h: wait, copy, record at 2 + 3h. Last, a wait for what the first graph records.
  script.add(2, script.device->wait_event(*hops.first));
  const hal::Segments cut = hal::cut_into_segments(script.commands);
  CHECK(texts_of(cut) ==
        std::vector<std::string>{"graph 0-9 queues 1 2", "direct 9-13 queues 1", "graph 13-21 queues 1 2"});
  std::vector<size_t> ordered;
  for (size_t i = 0; i < cut.ordered_by_cut.size(); ++i)
    if (cut.ordered_by_cut[i]) ordered.push_back(i);
  CHECK(ordered == std::vector<size_t>{20});
  REQUIRE(cut.uncaptured.size() == 2);
  CHECK(cut.uncaptured[0].instruction == 9);
  CHECK(cut.uncaptured[1].instruction == 12);
  CHECK(cut.uncaptured[1].reason == std::string("it must not"));
  CHECK(hal::cut_into_segments({}).list.empty());
}

TEST_CASE("a graph is captured once and launched each time, and what stands between graphs is issued each time") {
  for (const std::vector<int>& direct : {std::vector<int>{}, {0}, {5}, {1, 4}, {2, 3}, {0, 1, 2, 3, 4, 5}}) {
    Script script({.graphs = true}, 3);
    const Hops hops(script, direct);
    script.add(2, script.device->wait_event(*hops.first));  // across all cuts
    const auto recording = script.recorded();
    CHECK(recording->uncaptured().size() == direct.size());
    for (int submission = 1; submission <= 5; ++submission) {
      REQUIRE(script.submit(*recording) == "");
      CHECK(script.value_at(hops.place, 64 * (Hops::kHops + 1)) == 5);
      const std::vector<uint8_t> zeros(64 * (Hops::kHops + 1));
      REQUIRE(script.device->write(hops.place, zeros.data(), static_cast<int64_t>(zeros.size())).ok());
    }
    for (int hop = 0; hop < Hops::kHops; ++hop)
      CHECK(hops.issues[static_cast<size_t>(hop)] ==
            (std::find(direct.begin(), direct.end(), hop) != direct.end() ? 5 : 1));
    // Timed, each command is issued.
    REQUIRE(script.submit(*recording, true) == "");
    CHECK(script.timed == static_cast<int>(script.commands.size()));
    REQUIRE(script.submit(*recording) == "");
    CHECK(script.value_at(hops.place, 64 * (Hops::kHops + 1)) == 5);
    CHECK(RaceDetector::instance().take_races().empty());
  }
}

TEST_CASE("two recordings of one device share its events") {
  Script script({.graphs = true}, 3);
  const Hops hops(script, {3});
  const auto one = script.recorded(), two = script.recorded();
  for (int round = 0; round < 3; ++round)
    for (hal::Recording* recording : {one.get(), two.get()}) REQUIRE(script.submit(*recording) == "");
  CHECK(hops.issues == std::vector<int>{2, 2, 2, 6, 2, 2});
  CHECK(RaceDetector::instance().take_races().empty());
}

TEST_CASE("a step may take longer than its timeout as long as it goes on") {
  for (const bool goes_on : {true, false}) {
    Script script({}, 1);
    script.wait.timeout = std::chrono::seconds(1);
    std::promise<void> end;
    const auto ended = end.get_future().share();
    for (int i = 0; i < 12; ++i) {
      script.add(0, std::make_unique<Issued>([=](cudaStream_t stream) {
                   const auto run = [=] {
                     if (goes_on) std::this_thread::sleep_for(std::chrono::milliseconds(100));
                     else ended.wait();
                   };
                   return hal::cuda_status(enqueue(stream, {"slow", {}, {}, run}), "slow");
                 }));
      script.add(0, script.device->record_event(script.event()));
    }
    const auto recording = script.recorded();
    CHECK(script.submit(*recording) == (goes_on ? "" : "-1.-1 R0302 waited 1 s for the device to finish a step"));
    end.set_value();
  }
}

TEST_CASE("a command that fails ends the capture, and the next one begins anew") {
  Script script({.graphs = true}, 2);
  const hal::Address place = script.allocate(256);
  bool fails = true;
  script.add(1, script.device->fill(place, std::byte{1}, 64));
  script.add(1, std::make_unique<Issued>(
                    [&](cudaStream_t) { return fails ? Status::failure("R0403", "as it must") : Status(); }));
  const auto recording = script.recorded();
  CHECK(script.submit(*recording) == "1.1 R0403 as it must");
  CHECK(script.positions == std::vector<int32_t>{-1, 1});
  CHECK(script.value_at(place, 64) == 0);
  fails = false;
  CHECK(script.submit(*recording) == "");
  CHECK(script.value_at(place, 64) == 1);
}

TEST_CASE("what CUDA refuses during a capture is R0407, with the call") {
  Script script({.graphs = true}, 2);
  const hal::Address place = script.allocate(256);
  script.add(1, script.device->fill(place, std::byte{1}, 64));
  bool checked = true;
  script.add(1, std::make_unique<Issued>([&](cudaStream_t stream) {
               const cudaError_t error = cudaStreamSynchronize(stream);
               return checked ? hal::cuda_status(error, "cudaStreamSynchronize(stream)") : Status();
             }));
  const auto recording = script.recorded();
  CHECK(script.submit(*recording) ==
        "1.1 R0407 cudaStreamSynchronize(stream): operation not permitted when stream is capturing");
  checked = false;
  CHECK(script.submit(*recording).find("-1.-1 R0407 cuda") == 0);
  CHECK(script.failures.back().find("operation failed due to a previous error during capture") != std::string::npos);
}

// A stream that a command used beside its own is not joined.
TEST_CASE("a graph that cannot be made is R0407") {
  Script script({.graphs = true}, 2);
  cudaStream_t other = nullptr;
  cudaEvent_t event = nullptr;
  REQUIRE(cudaStreamCreateWithPriority(&other, cudaStreamNonBlocking, 0) == cudaSuccess);
  REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
  script.add(1, std::make_unique<Issued>([&](cudaStream_t stream) {
               REQUIRE(cudaEventRecord(event, stream) == cudaSuccess);
               REQUIRE(cudaStreamWaitEvent(other, event, 0) == cudaSuccess);
               REQUIRE(cudaLaunchHostFunc(other, [](void*) {}, nullptr) == cudaSuccess);
               return Status();
             }));
  const auto recording = script.recorded();
  CHECK(script.submit(*recording) ==
        "-1.-1 R0407 cudaStreamEndCapture(stream_, &graph): capturing stream has unjoined work");
  CHECK(cudaEventDestroy(event) == cudaSuccess);
  CHECK(cudaStreamDestroy(other) == cudaSuccess);
}

TEST_CASE("while a graph does not end, its queues are at their first commands in it") {
  Script script({.graphs = true}, 3);
  const hal::Address place = script.allocate(256);
  std::promise<void> go;
  std::shared_future<void> gone = go.get_future().share();
  int direct = 0;
  script.add(1, script.device->fill(place, std::byte{1}, 64));
  script.add(2, std::make_unique<Counted>(script.device->fill(place + 64, std::byte{1}, 64), direct, "it must not"));
  script.add(2, script.device->fill(place + 128, std::byte{1}, 64));
  script.add(1, std::make_unique<Issued>([gone](cudaStream_t stream) {
               return hal::cuda_status(enqueue(stream, {"hangs", {}, {}, [gone] { gone.wait(); }}), "enqueue");
             }));
  script.add(1, script.device->fill(place, std::byte{2}, 64));
  const auto recording = script.recorded();
  script.wait.timeout = std::chrono::milliseconds(300);
  CHECK(script.submit(*recording).find("-1.-1 R0302 ") == 0);
  CHECK(script.positions == std::vector<int32_t>{-1, 3, 2});
  go.set_value();
  script.wait.timeout = std::chrono::seconds(60);

  CHECK(script.submit(*recording) == "");
}

}  // namespace
}  // namespace piper::standin
