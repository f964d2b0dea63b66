// Rule on numbers: what a place adds to its part of a gradient is its part of what one device adds to all of it. Right
// because a sum is one of each element by itself, and because a place's part of what is the same along the axis that is
// cut is that again, of fewer places.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "schemas/verify/numbers/experts.h"
#include "schemas/verify/numbers/number.h"
#include "schemas/verify/numbers/program.h"

namespace piper::verify {

// All places' parts of a gradient, each part of which lies in `out`, as they lie in the model's. `whole`: which axis is
// cut, and how. `view`: of as many ranks' experts along axis `experts`. Nothing where that is not known.
std::optional<plan::Operand> of_all_places(const NumberedProgram& run, const WholeCall& whole, int64_t ranks,
                                           int32_t experts, const plan::Operand& out, const View& view);

// Where what is added to a part is the same at all places: that, and where it lies in the model's gradient. Nothing
// where `out` is no part, or what is added is not the same along the axis that is cut.
std::optional<std::pair<plan::Operand, View>> alike_at_all_places(const NumberedProgram& run, const plan::Operand& out,
                                                                  const View& view);

}  // namespace piper::verify
