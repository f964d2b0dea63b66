// What a machine cannot give: the codes that a device and a transport answer with. Built with the MPI transport
// of a piper-run without MPI, whatever this machine has.
#include <catch2/catch.hpp>

#include <cstdint>
#include <string>

#include "runtime/hal/cpu/available_memory.h"
#include "runtime/hal/device.h"
#include "runtime/hal/mpi/mpi_transport.h"
#include "tests/unit/temp_folder.h"

namespace piper::hal {

// More than any address space holds; a region that failed needs no clearing up.
TEST_CASE("memory that is not to be had") {
  const auto region = make_cpu_device({}, {})->allocate(int64_t{1} << 60);
  REQUIRE_FALSE(region.ok());
  CHECK(region.error().code == "R0405");
  CHECK(region.error().message.find("cannot allocate 1152921504606846976 bytes") != std::string::npos);
}

// A machine of files: what it says is available decides, before a page is filled.
TEST_CASE("memory that the machine or the cgroup has not left") {
  const TempFolder machine;
  DeviceOptions options;
  options.machine = machine.path().string();
  const auto refusal = [&](int64_t bytes) {
    const auto region = make_cpu_device(options, {})->allocate(bytes);
    return region.ok() ? "" : region.error().code + " " + region.error().message;
  };
  const int64_t wanted = int64_t{1} << 20;
  CHECK(refusal(wanted).empty());  // nothing says what there is
  machine.write("proc/meminfo", "MemTotal:  99999999 kB\nMemFree:  1 kB\nMemAvailable:    140000 kB\n");
  CHECK(available_memory(options.machine) == int64_t{140000} * 1024);
  CHECK(refusal(wanted).empty());
  machine.write("proc/meminfo", "MemAvailable:    131000 kB\n");
  CHECK(
      refusal(wanted) ==
      "R0405 cannot allocate 1048576 bytes: 1048576 of them are still to be filled, and the machine or the cgroup has "
      "134144000 bytes available, of which 134217728 are left alone");
  CHECK(refusal(0).empty());

  machine.write("proc/meminfo", "MemAvailable:    9000000 kB\n");
  machine.write("proc/self/cgroup", "0::/jobs/mine\n");
  machine.write("sys/fs/cgroup/jobs/mine/memory.max", "max\n");
  machine.write("sys/fs/cgroup/jobs/mine/memory.current", "5000\n");
  CHECK(available_memory(options.machine) == int64_t{9000000} * 1024);
  machine.write("sys/fs/cgroup/jobs/memory.max", "300000000\n");
  machine.write("sys/fs/cgroup/jobs/memory.current", "299000000\n");
  machine.write("sys/fs/cgroup/jobs/memory.stat", "anon 1\nfile 900\ninactive_file 500\nactive_file 77\n");
  CHECK(available_memory(options.machine) == 1000577);
  CHECK(refusal(wanted).find("has 1000577 bytes available") != std::string::npos);
  machine.write("sys/fs/cgroup/memory.max", "1000\n");  // a container's own group
  machine.write("sys/fs/cgroup/memory.current", "2000\n");
  CHECK(available_memory(options.machine) == 0);

  machine.write("proc/self/cgroup", "4:cpu,cpuacct:/x\n3:memory:/one\n");
  machine.write("sys/fs/cgroup/memory/one/memory.limit_in_bytes", "700\n");
  machine.write("sys/fs/cgroup/memory/one/memory.usage_in_bytes", "600\n");
  machine.write("sys/fs/cgroup/memory/one/memory.stat",
                "inactive_file 1\ntotal_inactive_file 20\ntotal_active_file 3\n");
  CHECK(available_memory(options.machine) == 123);
}

// The message says what works without MPI.
TEST_CASE("a build without MPI") {
  const auto transport = MpiTransport::make();
  REQUIRE_FALSE(transport.ok());
  CHECK(transport.error().code == "R0104");
  CHECK(transport.error().message.find("--comm local") != std::string::npos);
}

}  // namespace piper::hal
