// Rule on numbers: up to rounding, a cast between floating types is what was cast. Right because a value of another
// floating type is the same real number, rounded; which values a strategy's `precision` rounds is its to choose, and is
// said by the reference.
//
// So the casts themselves need not be believed: without them, and with all floating values of one type, the reference
// must make the gradients and losses of the model as it is before casts are inserted (Bundle::reference, the second).
// Plans are held to the reference with its casts, type by type; this holds the reference.
#pragma once

#include <cstdint>

#include "schemas/base/status.h"
#include "schemas/plan/plan.h"

namespace piper::verify {

// How many gradients and losses are the same; those that kernels without a row make are not compared. P0641 with the
// call at which the difference begins. Needs both references.
Result<int64_t> check_casts(const plan::Bundle& bundle);

}  // namespace piper::verify
