// The conformance cases on the MPI transport; run under mpirun. The exit status is 1 if any rank found something wrong.
#include <cstdio>

#include "runtime/hal/mpi/mpi_transport.h"
#include "runtime/hal/transport_channel.h"
#include "tests/conformance/run_cases.h"

int main() {
  auto transport = piper::hal::MpiTransport::make();
  if (!transport.ok()) {
    std::fprintf(stderr, "%s\n", transport.error().message.c_str());
    return 1;
  }
  if (!piper::conformance::conforms(**transport)) (*transport)->abort(1);
  // Receives that were given up on purpose are still posted: the end of the process takes them.
  (void)piper::hal::TransportChannel(**transport).barrier({});
  return 0;
}
