// Ranks of one process on the stand-in's GPU: the CUDA device and its collectives, kernels of the CPU launched as host
// functions on the stream that they are given.
#pragma once

#include "runtime/exec/backend.h"

namespace piper::standin {

// The CPU's kernels, on the alias of the device's memory.
const kernels::Library& library();
// `transport` outlives the backend.
exec::MakeBackend local_backend(hal::Transport& transport);

}  // namespace piper::standin
