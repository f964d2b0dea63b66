// What a rank is executed on where that is a GPU. The code behind it links kernels for GPUs and NCCL; it stands in the
// library libpiper_cuda.so, which piper-run opens where there is a GPU, so that one piper-run starts everywhere.
#pragma once

#include "runtime/exec/backend.h"

namespace piper::exec {

struct CudaBackendOptions {
  int ordinal = 0;  // of the GPUs that this process sees
  bool graphs = false;
  plan::Summing summing = plan::Summing::kPosition;
  // Between ranks of this process, which is how they communicate; nullptr: by NCCL, one rank a GPU. Outlives the
  // backend.
  hal::Transport* transport = nullptr;
};
using MakeCudaBackend = MakeBackend (*)(const CudaBackendOptions& options);

struct OpenedCuda {
  int devices = 0;  // that this process sees
  MakeCudaBackend backend = nullptr;
};
// R0106, in one line: there is no GPU, piper-run was built without what drives them, or its library is not there.
Result<OpenedCuda> open_cuda();

}  // namespace piper::exec

// How the library is entered. A backend fails as hal::make_cuda_device() does; R0106 where it was built without NCCL.
extern "C" void piper_cuda_backend(const piper::exec::CudaBackendOptions& options, piper::exec::MakeBackend& made);
