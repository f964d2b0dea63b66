// Updates of plans that tests write by hand or damage: one call of the group's optimizer on f32 elements, or a matrix.
#pragma once

#include <string>

#include "schemas/plan/plan.h"

namespace piper::plan::example {

// buffer -1 where there is none.
struct UpdateRanges {
  BufferRange parameter, gradient;
  int64_t count = 0;  // elements
  BufferRange m, v, scale, overflow, working;
  DType working_type = DType::kBF16;
  int64_t columns = 0;  // of a matrix; 0: elements in a row
};

Program advance_program();
// Appends the run that counts the optimizer's step, and declares what updates of the rank share, where it is missing.
void append_advance(Bundle& bundle, RankPlan& plan, int32_t stream, int32_t provenance = -1);
// Appends an update after append_advance(); its program is added to the bundle where it is missing.
void append_update(Bundle& bundle, RankPlan& plan, int32_t stream, const UpdateRanges& ranges, int32_t group = 0,
                   int32_t provenance = -1);

UpdateRanges ranges_of(const Bundle& bundle, const RankPlan& plan, const Update& update);
// Gives the update other ranges: an argument list of its own and the program that fits.
void set_ranges(Bundle& bundle, RankPlan& plan, Update& update, const UpdateRanges& ranges);

}  // namespace piper::plan::example
