// The conformance cases on the CUDA device over the stand-in.
#include <catch2/catch.hpp>

#include "runtime/hal/cuda/cuda_device.h"
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

// What CUDA refuses is told with the call that it refused.
TEST_CASE("a copy beyond the memory is R0407") {
  const auto device = std::move(hal::make_cuda_device({}, {})).value();
  const auto region = std::move(device->allocate(4096)).value();
  const std::vector<std::byte> bytes(8192);
  const Status status = device->write(region->base(), bytes.data(), 8192);
  REQUIRE(!status.ok());
  CHECK(status.error().code == "R0407");
  CHECK(status.error().message.find("cudaMemcpy(") == 0);
}

}  // namespace
}  // namespace piper::conformance
