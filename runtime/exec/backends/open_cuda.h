// GPUs, for the program: how many there are, and backends on them.
#pragma once

#include "runtime/exec/backends/cuda_backend.h"

namespace piper::exec {

using MakeCudaBackend = MakeBackend (*)(const CudaBackendOptions& options);

struct OpenedCuda {
  int devices = 0;  // that this process sees
  MakeCudaBackend backend = nullptr;
};
// R0106, in one line: there is no GPU, piper-run was built without what drives them, or its library is not there or
// cannot be loaded.
Result<OpenedCuda> open_cuda();

}  // namespace piper::exec
