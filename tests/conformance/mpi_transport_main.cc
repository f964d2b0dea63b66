// The conformance cases on the MPI transport; run under mpirun. Rank 0 prints one line a failure;
// the exit status is 1 if any rank found something wrong.
#include <cstdio>

#include "runtime/hal/transport_channel.h"
#include "runtime/hal/mpi/mpi_transport.h"
#include "tests/conformance/collective_cases.h"

namespace {

using piper::conformance::Case;

bool passes(piper::hal::Transport& transport, const Case& test) {
  auto all = piper::hal::TransportChannel(transport).allgather(test.run(transport), {});
  if (!all.ok()) {
    std::fprintf(stderr, "%s: %s\n", test.name, all.error().message.c_str());
    return false;
  }
  bool passed = true;
  for (size_t rank = 0; rank < all->size(); ++rank) {
    if ((*all)[rank].empty()) continue;
    passed = false;
    if (transport.rank() == 0) std::fprintf(stderr, "%s, rank %zu: %s\n", test.name, rank, (*all)[rank].c_str());
  }
  return passed;
}

}  // namespace

int main() {
  auto transport = piper::hal::MpiTransport::make();
  if (!transport.ok()) {
    std::fprintf(stderr, "%s\n", transport.error().message.c_str());
    return 1;
  }
  bool passed = true;
  for (const Case& test : piper::conformance::common_cases()) passed = passes(**transport, test) && passed;
  const auto slower = piper::conformance::delayed(**transport);
  for (const Case& test : piper::conformance::common_cases()) passed = passes(*slower, test) && passed;
  passed = passes(**transport, piper::conformance::delays()) && passed;
  passed = passes(**transport, {"counts_that_differ", piper::conformance::counts_that_differ}) && passed;
  passed = passes(**transport, {"sizes_that_differ", piper::conformance::sizes_that_differ}) && passed;
  if ((*transport)->rank() == 0)
    std::printf("%s on %d ranks\n", passed ? "conforms" : "FAILS", (*transport)->world_size());
  if (!passed) (*transport)->abort(1);
  // Receives that were given up on purpose are still posted: the end of the process takes them.
  (void)piper::hal::TransportChannel(**transport).barrier({});
  return 0;
}
