// Facts about kernels whose operands have parts of ranks (experts.h): which axis of the results then has parts, or that
// these are shares of a sum over all parts.
#pragma once

#include <string>

#include "schemas/verify/numbers/spread_call.h"

namespace piper::verify {

// Sets part, segments and segments_of_rows of the whole call, or share of its spread. "" or why it is neither.
std::string find_part(SpreadCall& call);

// What a place has past the last of a value is no element of a result either. A sum over it needs zeros there, in all
// that is multiplied; a function of them that is zero at zero keeps them. After find_part; "" or why it is none.
std::string take_surplus(SpreadCall& call);

}  // namespace piper::verify
