// What a run is about to do, in a few lines before it does it: what is read is what a user may have got wrong.
#pragma once

#include <string>
#include <vector>

#include "runtime/program/flags.h"
#include "runtime/program/inputs.h"

namespace piper::program {

// After read_inputs(): model, ranks, weights, data, steps; a line each. Where it goes on, the
// reporting rank says.
std::vector<std::string> banner(const Flags& flags, const Inputs& inputs, const exec::Session& session);

}  // namespace piper::program
