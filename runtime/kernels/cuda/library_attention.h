// Attention by LibTorch's kernels for GPUs, for the rows of attention_rows.h that are not our own. What they want of
// their operands is made here: rows of heads that are read in packs of 16 bytes, heads of a multiple of a pack, as many
// heads of keys as of queries, masks as numbers to add, statistics of padded rows. A query that may attend to nothing
// gives 0, and gradient 0, whatever they say of it.
#pragma once

#include <memory>
#include <vector>

#include "runtime/kernels/cuda/attention_rows.h"

namespace piper::kernels {
class OperatorDevice;
}

namespace piper::kernels::cuda {

// The kernel of a call that `row` serves, or R0402.
Result<std::unique_ptr<PreparedKernel>> bind_library_attention(AttentionRow row, const plan::KernelCall& call,
                                                               const std::vector<BoundOperand>& outputs,
                                                               const std::vector<BoundOperand>& inputs,
                                                               const OperatorDevice& device);

}  // namespace piper::kernels::cuda
