// Runs each program of a rank once, on its own stream, before the buffers hold anything: for kernels whose library
// takes scratch by itself. So the library has that memory before a graph is captured, which must not ask the
// device for any, and one that takes more than the plan counts is refused before the first step, by its kernel.
#pragma once

#include "runtime/exec/load_rank.h"

namespace piper::exec {

// Of training and evaluation. Does nothing where the kernels want no rehearsal (kernels::Library::wants_rehearsal()).
// Nothing else may be under way. Buffers and the record of faults are zero behind it. R0403, with program and kernel;
// R0407.
Status rehearse(LoadedRank& rank, const hal::WaitControl& wait);

}  // namespace piper::exec
