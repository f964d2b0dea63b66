// The kernels of a rank on a GPU: what a backend takes.
#pragma once

#include <memory>

#include "runtime/hal/device.h"
#include "runtime/hal/position_group.h"
#include "runtime/kernels/kernel.h"

namespace piper::kernels::cuda {

// With memory of `device`, which is asked for more while kernels are bound. R0405.
Result<std::shared_ptr<const Library>> open_kernels(hal::Device& device);
hal::GroupKernels group_kernels();

}  // namespace piper::kernels::cuda
