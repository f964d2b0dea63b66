// CUDA's own kernels under the shim, for ranks on the stand-in's GPUs; kernels that have no own row are the CPU's.
#pragma once

#include "tests/standin/standin_backend.h"

namespace piper::shim {

// A library of the device's own, and sums and conversions.
void use_own_kernels(standin::GpuOptions& options);

}  // namespace piper::shim
