// piper-run from its command line to its exit status.
#pragma once

#include "runtime/program/flags.h"

namespace piper::program {

// Chooses how the ranks are spread over processes and runs them. Throws only where there is a bug.
int run(const Flags& flags);

}  // namespace piper::program
