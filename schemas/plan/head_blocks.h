// The calls that a call of linear_cross_entropy, or of one of its gradients, stands for: the product, the loss of its
// rows, and their gradients. The proof reads them for all rows at once; devices run them for a block of rows at a time,
// whose logits are in the call's own work memory; prices and bounds of scratch are sums and maxima over the blocks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schemas/plan/plan.h"

namespace piper::plan {

// Whether the calls of a kernel stand for others.
bool is_of_blocks(const CalledKernel& kernel);

// Elements (f32) of the work memory of a call of so many rows and classes. `product`, `logits`: the types in which the
// product and the loss are. That of the weight's gradient holds the logits' gradient of all rows where the product is
// of a half type, in which blocks do not add up without rounding.
int64_t head_work_elements(CalledKernel kernel, int64_t rows, int64_t classes, int64_t blocks, DType product,
                           DType logits);

// What of a call that fits its signature does not fit together nevertheless, or "".
std::string head_misfit(const KernelCall& call);

// In what follows the slot of an operand is the place of that of the call in which it lies: of its inputs, then of its
// outputs; its offset counts from there.

// One block after the other. Needs a call that fits its signature.
std::vector<KernelCall> calls_on_blocks(const KernelCall& call);
// For all rows; the work memory may be larger than the call's. `cast_as_rows`: casts of logits are of [rows, classes],
// not of the product's axes.
std::vector<KernelCall> calls_on_all_rows(const KernelCall& call, bool cast_as_rows);

}  // namespace piper::plan
