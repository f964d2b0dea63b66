// piper-run from its command line to its exit status.
#pragma once

#include "runtime/program/flags.h"
#include "runtime/program/ranks.h"

namespace piper::program {

// Puts something between a process's ranks and what they are executed on. It is asked before the first rank, and
// what it returns once the session has all that ranks share. For tests, which so make a rank fail: piper-run has none.
using WrapRanks = std::function<MakeRank(const MakeRank& make, exec::Session& session)>;

// Chooses how the ranks are spread over processes and runs them. Throws only where there is a bug.
int run(const Flags& flags, const WrapRanks& wrap = {});

}  // namespace piper::program
