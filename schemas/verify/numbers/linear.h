// Rule on numbers: a linear function of a sum over samples is the sum of that function of what is added up in it,
// f(a + b) = f(a) + f(b) where all other operands are the same. Right because a row (rows.h) makes a sum of a sum only
// by a kernel that is linear in that one operand, in the real numbers; like the order of additions, where a value is
// rounded on the way is a strategy's to choose. So a stage may take its part of a gradient through what it computes of
// parameters alone, and the parts be added up after that, where the model adds them in front.
// Of values of a piece (pieces.h) it holds where the kernel is linear by its row, and is followed for single numbers:
// the terms of a loss, which the stages that have them add up apart. (Gradients of residual connections would have
// 2^n.)
//
// The normal form is the sum: every number over kSum says what is added up in it, and nothing of that is a sum itself.
#pragma once

#include <cstdint>
#include <vector>

#include "schemas/verify/numbers/number.h"

namespace piper::verify {

// Puts into `made.addends` what its result is a sum of, each a number of `table`; leaves it empty where the result is
// no sum of several. `new_numbers` takes what was numbered for that. False: of more values than are followed.
bool take_apart(NumberTable::Made& made, NumberTable& table, std::vector<int32_t>& new_numbers);

}  // namespace piper::verify
