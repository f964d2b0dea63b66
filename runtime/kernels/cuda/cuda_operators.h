// LibTorch's operators on a GPU: views of device memory, a queue's stream as LibTorch's current one. By c10 alone: what
// lies under ATen/cuda wants headers of libraries that a toolkit need not have.
//
// Temporaries of operators (dense copies, results of operators that make their own, workspaces of convolutions and
// products) come from LibTorch's caching allocator, which keeps them by stream, in a pool of the rank's
// (scratch_pool.h): what plans count for a call's scratch is assumed, and compared with what it takes when a plan is
// loaded (exec/rehearse.h).
#pragma once

#include <memory>

#include "schemas/base/status.h"

namespace piper::kernels {
class OperatorDevice;
}

namespace piper::kernels::cuda {

// On the GPU that is the thread's current one. R0106 where this LibTorch has no CUDA, or cannot start it. Process-wide:
// library/operator_settings.h.
Result<std::unique_ptr<const OperatorDevice>> open_cuda_operators();

}  // namespace piper::kernels::cuda
