// Rule on numbers: where each of D ranks has one of D experts, or of D places along an axis that is cut, what a rank
// has may be read in several ways, each of them right, and the one is taken by which a call is the model's.
// - Any axis of one place may be the experts': in the value that one device has it has D places, of which the rank
//   reads its own. So may an axis be along which a rank has all elements of an expert, with the experts outside.
// - A copy that only moves the axis of experts has, of each expert, the same elements in the same order. So memory
//   that holds a rank's part of a value holds its part of such a copy, and a call may read either.
// - A copy of elements without such an axis is the copy of these with one more axis of one place.
// - What a rank reads again and again of its one place is its part of a copy that repeats each place so often, as heads
// of
//   keys and values are for the heads of queries that share them.
// All of these numbers are right for what is in memory (experts.h), so no choice among them proves a wrong program.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schemas/plan/plan.h"
#include "schemas/verify/numbers/experts.h"
#include "schemas/verify/numbers/held.h"
#include "schemas/verify/numbers/number.h"
#include "schemas/verify/numbers/views.h"

namespace piper::verify {

struct WayToRead {
  View view;
  SpreadView where;
  SpreadView places = {};  // HeldValue::places
};

// Ways to read elements of a value that is spread, the likeliest first, where `copies` of it may stand for it.
// `samples`: of each rank. `why`: "", or why the first that was tried is none.
std::vector<WayToRead> ways_to_read(const StridedElements& elements, const HeldValue& value, DType dtype,
                                    int64_t samples, const std::vector<int32_t>& copies, const NumberTable& table,
                                    std::string& why);

// A copy that reads elements of `value` with one more axis, of one place, where the experts' axis is in memory. Of
// other calls, and of a value of which each rank has all, nothing.
std::optional<plan::KernelCall> with_axis_of_experts(const plan::KernelCall& call, const HeldValue& value);

}  // namespace piper::verify
