// The conformance cases on the CPU.
#include <catch2/catch.hpp>

#include <atomic>
#include <mutex>

#include "tests/conformance/device_cases.h"

namespace piper::conformance {
namespace {

TEST_CASE("the CPU conforms as a device") {
  const MakeDevice make = [](size_t queues) {
    hal::DeviceOptions options;
    options.huge_pages = false;
    return hal::make_cpu_device(options, std::vector<hal::QueueOptions>(queues));
  };
  for (const DeviceCase& test : device_cases()) {
    INFO(test.name);
    CHECK(test.run(make) == "");
  }
}

TEST_CASE("memory begins at the boundaries that plans for it assume") {
  for (const bool huge_pages : {false, true}) {
    hal::DeviceOptions options;
    options.huge_pages = huge_pages;
    const auto region = hal::make_cpu_device(options, {})->allocate(1000);
    REQUIRE(region.ok());
    const auto place = reinterpret_cast<uintptr_t>((*region)->base().in_device());
    CHECK(place % static_cast<uintptr_t>(plan::buffer_alignment(plan::DeviceKind::kCuda)) == 0);
  }
}

// Where the host waits for events, it does not wait for ever.
TEST_CASE("an event that never comes") {
  class Told : public hal::StepObserver {
   public:
    void failed(int32_t queue, int32_t instruction, Status failure, const std::vector<int32_t>&) override {
      told += std::to_string(queue) + "." + std::to_string(instruction) + " " + failure.error().code;
    }
    void ran(int32_t, Clock::time_point, Clock::time_point, int64_t) override {}
    std::string told;
  } observer;
  const auto device = hal::make_cpu_device({}, std::vector<hal::QueueOptions>(1));
  const auto event = std::move(device->make_event("never")).value();
  const auto wait = device->wait_event(*event);
  const auto recording = std::move(device->record({{0, 7, wait.get()}})).value();
  const Status status = recording->submit({nullptr, std::chrono::milliseconds(50)}, observer, false);
  CHECK(hal::is_stopped(status));
  CHECK(observer.told == "0.7 R0302");
}

// Queues beside the first have threads of their own, and each thread is entered once, before its first command.
TEST_CASE("threads of queues are entered") {
  std::atomic<int> entered{0};
  hal::DeviceOptions options;
  options.enter_thread = [&entered] { ++entered; };
  const auto device = hal::make_cpu_device(options, std::vector<hal::QueueOptions>(3));
  int met = 0;
  std::mutex mutex;
  device->on_each_thread([&] {
    std::lock_guard lock(mutex);
    ++met;
  });
  CHECK(met == 3);
  CHECK(entered == 3);
}

}  // namespace
}  // namespace piper::conformance
