// What every transport must do, as cases that all ranks of a world run together. The local backend
// runs them on threads, the MPI backend under mpirun. A case returns what is wrong, or "".
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/hal/transport.h"

namespace piper::conformance {

struct Case {
  const char* name;
  std::function<std::string(hal::Transport& transport)> run;
};
// Cases that leave the world usable.
std::vector<Case> common_cases();
// Only of a transport whose messages are not delayed yet.
Case delays();
// The same transport with a short delay: all common cases hold on it too.
std::unique_ptr<hal::Transport> delayed(hal::Transport& transport);
// A send and a receive of different sizes must fail on the receiving rank; leaves messages unread, so
// it comes last.
std::string sizes_that_differ(hal::Transport& transport);

}  // namespace piper::conformance
