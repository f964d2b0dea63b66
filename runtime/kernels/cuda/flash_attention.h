// Attention by the flash kernels of LibTorch, which run on GPUs alone: bf16 and f16, no mask, heads of at most 128
// elements. Everything else is served by attention.h.
#pragma once

#include <memory>
#include <vector>

#include "runtime/kernels/kernel.h"

namespace piper::kernels {
class OperatorDevice;
}

namespace piper::kernels::cuda {

// Whether the flash kernels serve the call on a GPU of compute capability 8.0 or later.
bool serves_flash_attention(const plan::KernelCall& call, const std::vector<BoundOperand>& outputs,
                            const std::vector<BoundOperand>& inputs);
// The kernel of such a call, or R0402.
Result<std::unique_ptr<PreparedKernel>> bind_flash_attention(const plan::KernelCall& call,
                                                             const std::vector<BoundOperand>& outputs,
                                                             const std::vector<BoundOperand>& inputs,
                                                             const OperatorDevice& device);

}  // namespace piper::kernels::cuda
