// Ranks of one process on the stand-in's GPU: the CUDA device and its collectives, kernels of the CPU launched on the
// stream that they are given.
#pragma once

#include <functional>

#include "runtime/exec/backend.h"
#include "tests/standin/watched_device.h"

namespace piper::standin {

// The CPU's kernels, on the alias of the device's memory.
const kernels::Library& library();
struct LocalBackendOptions {
  bool graphs = false;
  std::function<Watch(const plan::RankPlan& plan)> watch;  // empty: none
};
// `transport` outlives the backend.
exec::MakeBackend local_backend(hal::Transport& transport, LocalBackendOptions options);

}  // namespace piper::standin
