// The conformance cases of devices on the first GPU of this machine.
#include <catch2/catch.hpp>

#include "runtime/hal/cuda/cuda_device.h"
#include "tests/conformance/device_cases.h"

namespace piper::conformance {

TEST_CASE("the GPU conforms as a device") {
  const auto first = hal::make_cuda_device({}, {});
  if (!first.ok()) {
    REQUIRE(first.error().code == "R0106");
    WARN("skipped: " << first.error().message);
    return;
  }
  for (const bool graphs : {false, true}) {
    const MakeDevice make = [&](size_t queues) {
      return std::move(hal::make_cuda_device({.graphs = graphs}, std::vector<hal::QueueOptions>(queues))).value();
    };
    for (const DeviceCase& test : device_cases()) {
      INFO(test.name << (graphs ? ", by graphs" : ""));
      CHECK(test.run(make) == "");
    }
  }
}

}  // namespace piper::conformance
