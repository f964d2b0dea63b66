// Streams of a GPU, its kernels, communication over memory of one process or by NCCL.
#include "runtime/exec/backends/cuda_backend.h"

#include "runtime/hal/cuda/cuda_device.h"
#include "runtime/hal/cuda/local_collectives.h"
#include "runtime/kernels/cuda/device_kernels.h"
#ifdef PIPER_HAVE_NCCL
#include "runtime/hal/nccl/nccl_collectives.h"
#endif

namespace piper::exec {

namespace {

Result<Backend> open(const plan::RankPlan& plan, const CudaBackendOptions& options) {
  Backend backend;
  PIPER_ASSIGN(backend.device,
               hal::make_cuda_device({.ordinal = options.ordinal, .graphs = options.graphs}, hal::queues_of(plan)));
  PIPER_ASSIGN(backend.kernels, kernels::cuda::open_kernels(*backend.device));
  if (options.transport != nullptr) {
    backend.collectives =
        hal::make_cuda_local_collectives(*options.transport, *backend.device, kernels::cuda::group_kernels());
    return backend;
  }
#ifdef PIPER_HAVE_NCCL
  backend.collectives =
      hal::make_nccl_collectives(plan, options.summing, *backend.device, kernels::cuda::group_kernels());
  return backend;
#else
  return Status::failure("R0106", "this piper-run was built without NCCL: use --comm local");
#endif
}

}  // namespace

}  // namespace piper::exec

extern "C" void piper_cuda_devices(piper::Result<int>& devices) { devices = piper::hal::cuda_devices(); }

extern "C" void piper_cuda_backend(const piper::exec::CudaBackendOptions& options, piper::exec::MakeBackend& made) {
  made = [options](const piper::plan::RankPlan& plan) { return piper::exec::open(plan, options); };
}
