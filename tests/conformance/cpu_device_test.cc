// The conformance cases on the CPU.
#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

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

// Large ones go past the caches, line by line: what comes before the first line and after the last one, and nothing
// beside it.
TEST_CASE("reads of any size and alignment") {
  constexpr int64_t kBytes = 1 << 18, kGuard = 128;
  const auto device = hal::make_cpu_device({}, {});
  const auto region = std::move(device->allocate(kBytes)).value();
  std::vector<uint8_t> written(kBytes);
  for (int64_t i = 0; i < kBytes; ++i) written[static_cast<size_t>(i)] = static_cast<uint8_t>(i * 7 + i / 251);
  REQUIRE(device->write(region->base(), written.data(), kBytes).ok());
  for (const int64_t bytes :
       {int64_t{0}, int64_t{1}, int64_t{65'535}, int64_t{65'536}, int64_t{65'537}, int64_t{100'003}})
    for (const int64_t from : {0, 1, 63})
      for (const int64_t to : {0, 5, 64}) {
        std::vector<uint8_t> expected(static_cast<size_t>(bytes + 2 * kGuard), 0xcd), got = expected;
        std::copy_n(written.begin() + from, bytes, expected.begin() + kGuard / 2 + to);
        REQUIRE(device->read(got.data() + kGuard / 2 + to, region->base() + from, bytes).ok());
        CHECK((got == expected));
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
