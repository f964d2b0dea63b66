// Powers of integers, made of products, which wrap around as PyTorch's do.
#pragma once

#include "compiler/frontend/aten/call.h"

namespace piper::frontend::aten {

// base ^ exponent for a tensor of integers or bools and integers of the same type, or one number that is not negative.
// As in PyTorch a negative exponent gives 0 for all bases but 1 and -1. In elements with an exponent above 63 and an
// odd base beyond 1 and -1, where the power is beyond 64 bits, the result is 0 and PyTorch's what is left of it.
ValueId integer_power(Call& c, ValueId base, ValueId exponent);
ValueId integer_power(Call& c, ValueId base, int64_t exponent);

}  // namespace piper::frontend::aten
