// Rule on numbers: up to rounding, a cast between floating types is what was cast. Right because a value of another
// floating type is the same real number, rounded; which values a strategy's `precision` rounds is its to choose, and is
// said by the reference.
//
// So the casts themselves need not be believed: without them, and with all floating values of one type, the reference
// must make the gradients and losses of the model as it is before casts are inserted (Bundle::reference, the second).
// Plans are held to the reference with its casts, type by type; this holds the reference.
#pragma once

#include <cstdint>
#include <string>

#include "schemas/base/status.h"
#include "schemas/plan/plan.h"

namespace piper::verify {

struct HeldCasts {
  int64_t held = 0;  // gradients and losses that are the same
  int64_t open = 0;  // ... of which the model's own are not covered, the first for this reason
  std::string why;
};
// P0641 with the call at which the difference begins. Needs both references.
Result<HeldCasts> check_casts(const plan::Bundle& bundle);

}  // namespace piper::verify
