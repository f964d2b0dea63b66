// Times of kernel calls out of a profile (`piper-run --profile`), which has times of whole runs: so that plans with the
// same calls in other runs, as a search makes them up, are priced by what was measured. Used by `piperc --tune`.
// `piper-run --calibrate` measures calls one by one, and needs no such parting.
#pragma once

#include "schemas/plan/kernel_times.h"
#include "schemas/timeline/priced.h"
#include "schemas/timeline/timeline.h"

namespace piper::timeline {

// `times`: microseconds of every call of a program that the profiled bundle runs. A program takes the mean of its runs
// and updates on all ranks. Its calls begin with the parts of that which `prices` gives them; then each call's time is
// made the mean, over all places where it appears, of its part in what was measured there, again and again: the steps
// of expectation maximisation for sums of parts that are not seen (Shepp and Vardi 1982), by which the sums over
// programs come as near to the measured ones as one time for each call allows.
struct ProfiledTimes {
  plan::KernelTimes times;
  RooflineFactors factors;  // of these calls, all places together: measured over roofline
};
ProfiledTimes times_by_profile(const plan::Bundle& bundle, const Measured& measured, const Priced& prices);

}  // namespace piper::timeline
