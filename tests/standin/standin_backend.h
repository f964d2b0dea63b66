// Ranks of one process on the stand-in's GPU: the CUDA device and its collectives, kernels of the CPU launched on the
// stream that they are given.
#pragma once

#include <functional>

#include "runtime/exec/backend.h"
#include "runtime/hal/position_group.h"
#include "tests/standin/watched_device.h"

namespace piper::standin {

// The CPU's kernels, on the alias of the device's memory.
const kernels::Library& library();
// The CPU's sums and conversions.
hal::GroupKernels group_kernels();

// What a rank's GPU is given.
struct GpuOptions {
  bool graphs = false;
  std::function<Watch(const plan::RankPlan& plan)> watch;  // empty: none
  const kernels::Library* kernels = &library();
  hal::GroupKernels groups = group_kernels();
};
// The device and the kernels; no collectives.
Result<exec::Backend> open_gpu(int ordinal, const plan::RankPlan& plan, const GpuOptions& options);
// `transport` outlives the backend.
exec::MakeBackend local_backend(hal::Transport& transport, GpuOptions options);

}  // namespace piper::standin
