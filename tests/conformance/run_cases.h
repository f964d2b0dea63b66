// The cases of transport_cases.h between processes: every rank of the world calls it, over MPI under mpirun and over
// UCX in processes that a test starts.
#pragma once

#include "runtime/hal/transport.h"

namespace piper::conformance {

// Whether no rank found anything wrong; rank 0 prints one line a failure, and the result.
bool conforms(hal::Transport& transport);

}  // namespace piper::conformance
