// CUDA's kernels for ranks on the stand-in's GPUs: own ones under the shim, LibTorch's operators as functions of the
// host.
#pragma once

#include "tests/standin/standin_backend.h"

namespace piper::shim {

// A library of the device's own, and sums and conversions.
void use_own_kernels(standin::GpuOptions& options);

}  // namespace piper::shim
