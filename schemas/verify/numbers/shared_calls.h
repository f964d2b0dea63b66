// Calls on what ranks share that share experts, as the calls of one device that they are a part of: experts.h,
// ways_to_read.h and ordered_rows.h say which and why, here they are evaluated. Used by program.cc.
#pragma once

#include <vector>

#include "schemas/plan/plan.h"
#include "schemas/verify/numbers/evaluation.h"

namespace piper::verify {

// False, and nothing done, where the call makes no order of rows and none of its operands is shared or belongs to one,
// or where one device makes it as it is. `operands`: Evaluation::read() of the call.
bool evaluate_shared(const plan::KernelCall& call, const std::vector<OperandRead>& operands, Evaluation& evaluation);

}  // namespace piper::verify
