// Ranks of one process on the stand-in's GPU: the CUDA device and its collectives, kernels of the CPU launched on the
// stream that they are given.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "runtime/exec/backends/backend.h"
#include "runtime/hal/position_group.h"
#include "tests/standin/standin.h"
#include "tests/standin/watched_device.h"

namespace piper::standin {

// The CPU's kernels, on the alias of the device's memory.
const kernels::Library& library();
// The CPU's sums and conversions.
hal::GroupKernels group_kernels();

// What a call, a sum and a conversion touch, without what they do.
Operation operation_of(const plan::KernelCall& call, const std::vector<kernels::BoundOperand>& outputs,
                       const std::vector<kernels::BoundOperand>& inputs);
Operation operation_of(const hal::PieceSum& sum);
Operation operation_of(const hal::Elements& to, const hal::Elements& from, int64_t count);

// `kernel`, which runs where it is called, as a function of the host at its place in a stream.
std::unique_ptr<kernels::PreparedKernel> launched(std::unique_ptr<kernels::PreparedKernel> kernel, Operation operation);

// What a rank's GPU is given.
struct GpuOptions {
  bool graphs = false;
  std::function<Watch(const plan::RankPlan& plan)> watch;  // empty: none
  // The kernels of a rank, on its device; empty: library().
  std::function<Result<std::shared_ptr<const kernels::Library>>(hal::Device& device)> kernels;
  hal::GroupKernels groups = group_kernels();
};
// The device and the kernels; no collectives.
Result<exec::Backend> open_gpu(int ordinal, const plan::RankPlan& plan, const GpuOptions& options);
// `transport` outlives the backend.
exec::MakeBackend local_backend(hal::Transport& transport, GpuOptions options);

}  // namespace piper::standin
