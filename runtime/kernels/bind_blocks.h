// Calls that stand for others on blocks of rows (schemas/plan/head_blocks.h), on any device: each block's calls are
// bound by the device's own library, one after the other, and run in this order.
#pragma once

#include "runtime/kernels/kernel.h"

namespace piper::kernels {

// The call is one of these. Errors: as Library::bind.
Result<std::unique_ptr<PreparedKernel>> bind_blocks(const Library& library, const plan::KernelCall& call,
                                                    const std::vector<BoundOperand>& outputs,
                                                    const std::vector<BoundOperand>& inputs,
                                                    const TrainingNumbers& numbers);

}  // namespace piper::kernels
