// The learning rate of a step, from the manifest.
#pragma once

#include <cstdint>

#include "schemas/plan/plan.h"

namespace piper::exec {

// Factor on the optimizer's lr at `step` (from 1): step / warmup up to `warmup`; then constant, or along a curve from 1
// down to `to` at step `until`, or phase after phase; after the last one its last value.
double lr_factor(const plan::LrSchedule& schedule, int64_t step);

}  // namespace piper::exec
