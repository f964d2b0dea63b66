#include "schemas/plan/lr_curves.h"

#include <algorithm>
#include <cmath>

namespace piper::plan {
namespace {

double left_of(const LrPhase& phase, double p) {
  switch (phase.curve) {
#define PIPER_LR_CURVE(enumerator, name, numbers, left) \
  case LrCurve::enumerator: return left;
#include "schemas/plan/lr_curves.def"
#undef PIPER_LR_CURVE
  }
  return 1;
}

}  // namespace

double lr_value(const LrPhase& asked, int64_t done) {
  LrPhase phase = asked;
  if (phase.steps <= 0) phase.steps = std::max<int64_t>(done, 1);
  const double p = std::min(1.0, static_cast<double>(done) / static_cast<double>(phase.steps));
  return phase.to + (phase.from - phase.to) * left_of(phase, p);
}

}  // namespace piper::plan
