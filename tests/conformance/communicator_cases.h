// What every communicator must do, as cases that all ranks of a world run together. The local backend
// runs them on threads, the MPI backend under mpirun. A case returns what is wrong, or "".
#pragma once

#include <string>
#include <vector>

#include "runtime/hal/communicator.h"

namespace piper::conformance {

struct Case {
  const char* name;
  std::string (*run)(hal::Communicator& communicator);
};
// Cases that leave the world usable.
std::vector<Case> common_cases();
// Only of a communicator whose messages are not delayed yet.
Case delays();
// The same communicator with a short delay: all common cases hold on it too.
std::unique_ptr<hal::Communicator> delayed(hal::Communicator& communicator);
// A send and a receive of different sizes must fail on the receiving rank; leaves messages behind, so
// it comes last.
std::string sizes_that_differ(hal::Communicator& communicator);

}  // namespace piper::conformance
