// Rule on numbers: what the places of a cut have of a value, and what becomes of it. Right because
// - a kernel that takes of an axis the row that is numbered as the rank's place takes at place p part p along it, which
//   is what Spread::part says: rule 9 says that the number is the rank's place of each cut;
// - an all_gather puts the parts of all places one after the other, in the order of the places (rule 8): where a part
// is
//   all that there is of a sample before the axis, that is the value, sample by sample within each part;
// - a reduce_scatter adds up what all places have a share of, and leaves at place p part p along the outermost axis.
#pragma once

#include <cstdint>
#include <optional>

#include "schemas/plan/plan.h"
#include "schemas/verify/exchanges.h"
#include "schemas/verify/numbers/held.h"
#include "schemas/verify/numbers/number.h"
#include "schemas/verify/numbers/program.h"

namespace piper::verify {

// What is in a slot of `bytes` that `reader` reads after a reduce_scatter or an all_gather over `places` places, of
// what the maker left in a program for `samples` samples.
HeldValues of_places(const HeldValues& sent, const Exchange& exchange, int64_t places, int64_t bytes, int64_t samples,
                     int32_t reader, NumberTable& table);

// What a call makes that takes the part of the rank's place, by an operand that is that number: nothing of other calls.
std::optional<HeldValue> own_part(const plan::KernelCall& call, const std::vector<View>& operands,
                                  const NumberedProgram& run, NumberTable& table);

}  // namespace piper::verify
