// Rule on numbers: a dropout of a part of a tensor that has the mask of that part is the part of the dropout. A mask is
// drawn by the number of an element in its sample; the call says how many elements of a sample a place has in a row,
// and of how many places, so which numbers its elements have in the whole: right where these are those of the operand's
// part.
#pragma once

#include <optional>
#include <string>

#include "schemas/verify/numbers/spread_call.h"

namespace piper::verify {

// Takes the place out of a dropout of a part, whose part is set, and lays the mask out for the whole. Nothing: it is
// none; else "" or why it is not covered.
std::optional<std::string> mask_of_part(SpreadCall& call);

}  // namespace piper::verify
