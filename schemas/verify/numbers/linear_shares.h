// Calls with a rank's share of a sum, or with sums over the samples of several ranks (experts.h): f(a + b) = f(a) +
// f(b).
#pragma once

#include <string>

#include "schemas/verify/numbers/spread_call.h"

namespace piper::verify {

// In the operand that is a share; all others are the same on every rank. "" or why it is none.
std::string shares_are_linear(SpreadCall& call);
// The same of what is summed over the ranks' samples.
std::string sums_are_linear(SpreadCall& call);

}  // namespace piper::verify
