// Rule on numbers: a value that is the same along its outermost axes is one of its repetitions. Right because a kernel
// that makes each element of the elements at its place makes equal ones of equal ones, as a product does of equal rows,
// or of a column that has one value, and a table looked up at one index gives one row; reading a repetition is reading
// the first. So what a model computes of constants, parameters and sums over samples for every sample alike, with the
// batch in its shape, is one value for pieces of all sizes.
#pragma once

#include <cstddef>
#include <vector>

#include "schemas/plan/plan.h"
#include "schemas/verify/numbers/number.h"

namespace piper::verify {

// How many of the outermost axes of a call's one result, in rows, every operand is the same along, where none of them
// has samples: 0 where these have one place. Operands are left with one place there.
size_t take_repetitions(const plan::KernelCall& call, std::vector<View>& operands);
// Which axes of a result, but `samples`, every operand is the same along; empty: along none of several places. Operands
// are left with one place there. `samples`: the axis of a result of which each sample has its own; -1: there is none.
std::vector<bool> take_repeated_axes(const plan::KernelCall& call, int32_t samples, std::vector<View>& operands);

}  // namespace piper::verify
