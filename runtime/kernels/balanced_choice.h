// Kernels that do not compute (waiting_library.h) still need whole numbers, such as the experts that a router chooses:
// those of a balanced router, and zeros elsewhere. Needs no LibTorch.
#pragma once

#include <memory>
#include <vector>

#include "runtime/kernels/kernel.h"

namespace piper::kernels {

// Writes the whole numbers and truth values that the call makes without reading them; null: it makes none. `topk` and
// `max_dim` choose places of their axis in turn, a row's k places different ones, so that n choices among e places fall
// on each place n / e times where e divides n. Refuses attributes and operands that do not fit (call_reader.h).
std::unique_ptr<PreparedKernel> balanced_choice(const plan::KernelCall& call, const std::vector<BoundOperand>& outputs,
                                                const std::vector<BoundOperand>& inputs);

}  // namespace piper::kernels
