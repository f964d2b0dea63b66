// Rule on numbers: tables and logits of which each place of a cut has some rows, or classes, of a whole one. A call
// says by its operand `place` which these are; that it is the number of the rank's own place is the rule about scalars.
// - A look-up of a place's own rows, and zeros for the others, is a share of the look-up: of each index one place has
//   the row, and the others add zeros. Of its gradient, each place adds to its own rows what one device adds there.
// - log(sum exp) over all classes is that of the places' own, each over a part of them: log sum_p exp(lse_p). The sum
//   over places of what row_lse makes has each of them by itself, and the target's logit of the place that has it:
//   cross_entropy_sum of these is that of the logits. Its gradient is one of each class by itself, given lse.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schemas/verify/numbers/experts.h"

namespace piper::verify {

// Makes a call with a place that of one device, as far as its operands say it: what is left to do is to give the parts
// of operands and results the whole's extents. Nothing: the call has no place. "" or why it is none, which is wrong.
std::optional<std::string> without_place(WholeCall& whole, std::vector<SpreadView>& where, const NumberTable& table);

}  // namespace piper::verify
