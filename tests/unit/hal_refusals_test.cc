// What a machine cannot give: the codes that a device and a communicator answer with. Built with the MPI communicator
// of a piper-run without MPI, whatever this machine has.
#include <catch2/catch.hpp>

#include <cstdint>

#include "runtime/hal/device.h"
#include "runtime/hal/mpi/mpi_communicator.h"

namespace piper::hal {

// More than any address space holds; a region that failed needs no clearing up.
TEST_CASE("memory that is not to be had") {
  const auto region = make_cpu_device({})->allocate(int64_t{1} << 60);
  REQUIRE_FALSE(region.ok());
  CHECK(region.error().code == "R0405");
  CHECK(region.error().message.find("1152921504606846976 bytes") != std::string::npos);
}

// The message says what works without MPI.
TEST_CASE("a build without MPI") {
  const auto communicator = MpiCommunicator::make();
  REQUIRE_FALSE(communicator.ok());
  CHECK(communicator.error().code == "R0104");
  CHECK(communicator.error().message.find("--comm local") != std::string::npos);
}

}  // namespace piper::hal
