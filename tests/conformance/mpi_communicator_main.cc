// The conformance cases on the MPI communicator; run under mpirun. Rank 0 prints one line a failure;
// the exit status is 1 if any rank found something wrong.
#include <cstdio>

#include "runtime/hal/host_collectives.h"
#include "runtime/hal/mpi/mpi_communicator.h"
#include "tests/conformance/collective_cases.h"

namespace {

using piper::conformance::Case;

bool passes(piper::hal::Communicator& communicator, const Case& test) {
  auto all = piper::hal::host_allgather(communicator, test.run(communicator), {});
  if (!all.ok()) {
    std::fprintf(stderr, "%s: %s\n", test.name, all.error().message.c_str());
    return false;
  }
  bool passed = true;
  for (size_t rank = 0; rank < all->size(); ++rank) {
    if ((*all)[rank].empty()) continue;
    passed = false;
    if (communicator.rank() == 0) std::fprintf(stderr, "%s, rank %zu: %s\n", test.name, rank, (*all)[rank].c_str());
  }
  return passed;
}

}  // namespace

int main() {
  auto communicator = piper::hal::MpiCommunicator::make();
  if (!communicator.ok()) {
    std::fprintf(stderr, "%s\n", communicator.error().message.c_str());
    return 1;
  }
  bool passed = true;
  for (const Case& test : piper::conformance::common_cases()) passed = passes(**communicator, test) && passed;
  const auto slower = piper::conformance::delayed(**communicator);
  for (const Case& test : piper::conformance::common_cases()) passed = passes(*slower, test) && passed;
  passed = passes(**communicator, piper::conformance::delays()) && passed;
  passed = passes(**communicator, {"counts_that_differ", piper::conformance::counts_that_differ}) && passed;
  passed = passes(**communicator, {"sizes_that_differ", piper::conformance::sizes_that_differ}) && passed;
  if ((*communicator)->rank() == 0)
    std::printf("%s on %d ranks\n", passed ? "conforms" : "FAILS", (*communicator)->world_size());
  if (!passed) (*communicator)->abort(1);
  // Receives that were given up on purpose are still posted: the end of the process takes them.
  (void)piper::hal::host_barrier(**communicator, {});
  return 0;
}
