#include <algorithm>

#include "runtime/bootstrap/rendezvous.h"
#include "runtime/exec/backends/open_cuda.h"
#include "runtime/hal/gpu_environment.h"
#include "runtime/program/ranks.h"

namespace piper::program {

int run_gpus(const Flags& flags, const plan::OpenBundle& opened, const bootstrap::RankEnvironment& environment,
             bootstrap::CommBackend comm, const std::function<int(const Error&)>& refuse, Inputs& inputs,
             exec::Session& session) {
  const int32_t world_size = opened.manifest.world_size;
  hal::set_gpu_environment();
  const auto cuda = exec::open_cuda();
  if (!cuda.ok()) return refuse(cuda.error());
  if (opened.manifest.target.device != plan::DeviceKind::kCuda)
    return refuse({"R0106", "the plan was compiled for CPU ranks: compile it with piperc --device cuda", false});
  const bool by_nccl = comm == bootstrap::CommBackend::kNccl, alone = environment.size == 1;
  if (by_nccl && alone && cuda->devices < world_size)
    return refuse({"R0106",
                   "--comm nccl wants a GPU for each of the " + std::to_string(world_size) + " ranks, and here are " +
                       std::to_string(cuda->devices) + ": use --comm local, which runs several on one",
                   false});
  // MPI has started what it can also end.
  const bool by_mpi =
      environment.launcher == bootstrap::Launcher::kOpenMpi || environment.launcher == bootstrap::Launcher::kPmi;
  int32_t local_rank = 0;
  if (!alone) {
    const auto read = bootstrap::read_local_rank(environment, bootstrap::process_variable);
    if (!read.ok()) return refuse(read.error());
    local_rank = *read;
    // A single device may be what the launcher shows each rank of its node's.
    const int here = std::max(bootstrap::ranks_of_node(bootstrap::process_variable), local_rank + 1);
    if (cuda->devices > 1 && here > cuda->devices)
      return refuse({"R0106",
                     "--comm nccl wants a GPU for each rank, and a node with " + std::to_string(here) +
                         " ranks or more has " + std::to_string(cuda->devices) + ": start fewer ranks on a node",
                     false});
  }
  const MakeRank make = [&](hal::Transport* links, int32_t rank) {
    exec::CudaBackendOptions options;
    options.ordinal = (alone ? rank : local_rank) % cuda->devices;
    options.graphs = flags.cuda_graph;
    options.summing = opened.manifest.target.summing;
    options.transport = links;
    return cuda->backend(options);
  };
  if (alone) return run_here(flags, opened, make, !by_nccl, inputs, session);
  if (by_mpi)
    return run_processes(flags, opened, make, false, environment, bootstrap::CommBackend::kMpi, inputs, session);
  return run_nccl(flags, opened, environment, make, inputs, session);
}

}  // namespace piper::program
