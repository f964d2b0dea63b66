// What a rank is executed on: its device, the kernels of that device, and its way to the other ranks. Made for a rank's
// plan, on the rank's thread; nothing that uses it asks which one it is.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "runtime/hal/collectives.h"
#include "runtime/hal/device.h"
#include "runtime/hal/link_delay.h"
#include "runtime/hal/transport.h"
#include "runtime/kernels/kernel.h"
#include "schemas/plan/plan.h"

namespace piper::exec {

struct Backend {
  std::shared_ptr<const kernels::Library> kernels;
  std::unique_ptr<hal::Device> device;
  std::unique_ptr<hal::Transport> delayed;  // what `collectives` uses, where links are delayed
  std::unique_ptr<hal::Collectives> collectives;
};
using MakeBackend = std::function<Result<Backend>(const plan::RankPlan& plan)>;

struct CpuBackendOptions {
  hal::DeviceOptions device;
  int threads = 1;                                  // intra-op threads of the rank
  std::optional<hal::LinkDelay> link_delay;         // for benchmarks and tests
  std::shared_ptr<const kernels::Library> kernels;  // instead of the CPU's own, for comparisons; nullptr: these
};
// `transport` outlives the backend.
MakeBackend cpu_backend(hal::Transport& transport, CpuBackendOptions options);

}  // namespace piper::exec
