// The kernels of a rank on a GPU, as a backend takes them: runtime/exec/backends/cuda_backend, and the tests of kernels
// on the shim and on GPUs. Which row is whose is in kernels.def and the binders beside this.
#pragma once

#include <memory>

#include "runtime/hal/device.h"
#include "runtime/hal/position_group.h"
#include "runtime/kernels/cuda/cuda_library.h"

namespace piper::kernels::cuda {

// Every row of kernels.def on the thread's current GPU. R0405: no memory. R0106: a LibTorch without CUDA.
Result<std::unique_ptr<Library>> make_kernels(DeviceMemory memory);
// With memory of `device`, which is asked for more while kernels are bound.
Result<std::shared_ptr<const Library>> open_kernels(hal::Device& device);
hal::GroupKernels group_kernels();

}  // namespace piper::kernels::cuda
