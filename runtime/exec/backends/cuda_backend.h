// How libpiper_cuda.so is entered: what a rank is executed on where that is a GPU. The library links CUDA's runtime,
// the kernels for GPUs and NCCL; piper-run opens it where it is asked for GPUs (open_cuda.h), and starts without any of
// them.
#pragma once

#include "runtime/exec/backends/backend.h"

namespace piper::exec {

struct CudaBackendOptions {
  int ordinal = 0;  // of the GPUs that this process sees
  bool graphs = false;
  plan::Summing summing = plan::Summing::kPosition;
  // Between ranks of this process, which is how they communicate; nullptr: by NCCL, one rank a GPU. Outlives the
  // backend.
  hal::Transport* transport = nullptr;
};

}  // namespace piper::exec

// How many GPUs this process sees. R0106: none, with CUDA's words.
extern "C" void piper_cuda_devices(piper::Result<int>& devices);
// A backend fails as hal::make_cuda_device() does; R0106 where the library was built without NCCL.
extern "C" void piper_cuda_backend(const piper::exec::CudaBackendOptions& options, piper::exec::MakeBackend& made);
