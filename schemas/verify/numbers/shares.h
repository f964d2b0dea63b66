// Rule on numbers: what is the same for all samples, and is added up by every piece, is a sum over the samples: of B/b
// pieces of b samples that each add x the sum is B/b times x. So a term of a loss without samples, and its gradients,
// which pieces add up with a weight each, are those that the model adds once. Right where every sample is added once
// (rule 8), whatever the sizes of pieces, as each of them adds its samples' part of one value.
//
// Such a sum is numbered by what is added up, and by which factor; factors of one known element are taken out of
// products. Shares of one value are one share, and are held to one another up to rounding.
#pragma once

#include <cstdint>

#include "schemas/verify/numbers/number.h"

namespace piper::verify {

// The sum that is in all `times` what is seen, a value of so many bytes in which no sample is.
int32_t share_of(View value, int64_t bytes, double times, NumberTable& table);
// Whether both are shares of one value.
bool same_value(int32_t a, int32_t b, const NumberTable& table);

}  // namespace piper::verify
