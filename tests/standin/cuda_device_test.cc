// The conformance cases on the CUDA device over the stand-in.
#include <catch2/catch.hpp>

#include <thread>

#include "runtime/hal/cuda/cuda_check.h"
#include "runtime/hal/cuda/cuda_device.h"
#include "runtime/hal/cuda/cuda_stream.h"
#include "tests/conformance/device_cases.h"
#include "tests/standin/standin.h"

namespace piper::conformance {
namespace {

TEST_CASE("a GPU conforms as a device") {
  for (const bool graphs : {false, true}) {
    const MakeDevice make = [&](size_t queues) {
      return std::move(hal::make_cuda_device({.graphs = graphs}, std::vector<hal::QueueOptions>(queues))).value();
    };
    for (const DeviceCase& test : device_cases()) {
      INFO(test.name << (graphs ? ", by graphs" : ""));
      CHECK(test.run(make) == "");
      CHECK(standin::RaceDetector::instance().take_races() == std::vector<std::string>());
    }
  }
}

TEST_CASE("no GPU, and memory that a GPU has not") {
  standin::set_devices(0);
  CHECK(hal::make_cuda_device({}, {}).error().code == "R0106");
  standin::set_devices(2);
  CHECK(hal::make_cuda_device({.ordinal = 2}, {}).error().message == "there is no CUDA device 2 here, only 2");
  standin::set_devices(1);
  const auto device = hal::make_cuda_device({}, {});
  REQUIRE(device.ok());
  const auto region = (*device)->allocate(int64_t{1} << 50);
  REQUIRE(!region.ok());
  CHECK(region.error().code == "R0405");
}

// What CUDA refuses is reported with the call that it refused.
TEST_CASE("a copy beyond the memory is R0407") {
  const auto device = std::move(hal::make_cuda_device({}, {})).value();
  const auto region = std::move(device->allocate(4096)).value();
  const std::vector<std::byte> bytes(8192);
  const Status status = device->write(region->base(), bytes.data(), 8192);
  REQUIRE(!status.ok());
  CHECK(status.error().code == "R0407");
  CHECK(status.error().message.find("cudaMemcpy(") == 0);
}

// Enqueues a copy, and takes long over it on the host; says whether it has found the copy done before it was through.
class SlowToEnqueue : public hal::Command {
 public:
  SlowToEnqueue(hal::Address to, hal::Address from, bool captured) : to_(to), from_(from), captured_(captured) {}
  Status issue(hal::Queue& queue, const hal::Submission&) override {
    cudaStream_t stream = hal::stream_of(queue);
    PIPER_CUDA(cudaMemcpyAsync(to_.in_device(), from_.in_device(), 64, cudaMemcpyDefault, stream));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    done_early_ = cudaStreamQuery(stream) == cudaSuccess;
    return {};
  }
  const char* prevents_capture() const override { return captured_ ? nullptr : "the host is part of it"; }
  bool done_early() const { return done_early_; }

 private:
  hal::Address to_, from_;
  bool captured_, done_early_ = false;
};

class Times : public hal::StepObserver {
 public:
  void failed(int32_t, int32_t, Status, const std::vector<int32_t>&) override {}
  void ran(int32_t, Clock::time_point, Clock::time_point, int64_t ns) override { last_ns = ns; }
  int64_t last_ns = -1;
};

TEST_CASE("a timed command does not begin before all of it is enqueued, unless it needs the host") {
  const auto device = std::move(hal::make_cuda_device({}, {})).value();
  const auto region = std::move(device->allocate(128)).value();
  for (const bool captured : {true, false}) {
    SlowToEnqueue command(region->base(), region->base() + 64, captured);
    const auto recording = std::move(device->record({{0, 0, &command}})).value();
    for (int time = 0; time < 2; ++time) {
      Times times;
      REQUIRE(recording->submit({nullptr, std::chrono::seconds(60)}, times, true).ok());
      REQUIRE(device->finish().ok());
      CHECK(command.done_early() != captured);
      CHECK(times.last_ns >= 0);
    }
  }
}

}  // namespace
}  // namespace piper::conformance
