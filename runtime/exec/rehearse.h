// Runs each program of a rank once, on its own stream, before the buffers hold anything: for kernels whose library
// takes scratch by itself. So the library has that memory before a graph is captured, which must not ask the
// device for any, and calls that take more than the plan counts are reported before the first step, all of them: how
// much LibTorch's kernels take on GPUs is not yet measured, so that it is no reason to end a run that has the memory.
#pragma once

#include <string>
#include <vector>

#include "runtime/exec/load_rank.h"

namespace piper::exec {

// For training and evaluation. Does nothing where the kernels want no rehearsal (kernels::Library::wants_rehearsal()).
// Nothing else may be under way. Buffers and the record of faults are zero after it. R0403, with program and kernel;
// R0407.
Status rehearse(LoadedRank& rank, const hal::WaitControl& wait);

// What is reported of calls that took more than the plan counts: how many there are, those first whose plan is furthest
// off.
std::string scratch_note(int32_t rank, std::vector<kernels::ScratchBeyondPlan> calls);

}  // namespace piper::exec
