// The learning rate of a step, from the manifest.
#pragma once

#include <cstdint>

#include "schemas/plan/plan.h"

namespace piper::exec {

// Factor on the optimizer's lr at `step` (from 1): step / warmup up to `warmup`; then constant, or
// cosine or linear from 1 down to `to` at step `until`, and `to` after it.
double lr_factor(const plan::LrSchedule& schedule, int64_t step);

}  // namespace piper::exec
