// What keeps a rank's step from being a single graph, for who asked for one.
#pragma once

#include <string>
#include <vector>

#include "runtime/exec/load_rank.h"

namespace piper::exec {

// A line for each reason, with the first instruction that has it; none where the step is one graph, or none was asked
// for.
std::vector<std::string> graph_cuts(const LoadedRank& rank);

}  // namespace piper::exec
