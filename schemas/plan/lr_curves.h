// The curves of the learning rate that a strategy, a manifest and a run know: lr_curves.def as data.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "schemas/plan/plan.h"

namespace piper::plan {

struct LrCurveInfo {
  enum Numbers : uint8_t { kNone = 0, kTo = 1, kPower = 2, kTimescale = 4 };

  LrCurve curve{};
  std::string_view name;
  uint8_t numbers = kNone;

  bool has(Numbers number) const { return (numbers & number) != 0; }
};

namespace lr_curves_def {

constexpr auto kNone = LrCurveInfo::kNone, kTo = LrCurveInfo::kTo, kPower = LrCurveInfo::kPower,
               kTimescale = LrCurveInfo::kTimescale;

inline constexpr LrCurveInfo kRows[] = {
#define PIPER_LR_CURVE(enumerator, name, numbers, left) {LrCurve::enumerator, name, numbers},
#include "schemas/plan/lr_curves.def"
#undef PIPER_LR_CURVE
};

}  // namespace lr_curves_def

inline constexpr auto& kLrCurves = lr_curves_def::kRows;

constexpr const LrCurveInfo& lr_curve(LrCurve curve) { return kLrCurves[static_cast<size_t>(curve)]; }
constexpr std::optional<LrCurve> lr_curve_from_name(std::string_view name) {
  for (const LrCurveInfo& info : kLrCurves)
    if (info.name == name) return info.curve;
  return std::nullopt;
}

// The factor after `done` steps of a phase, up to all of them. A phase of 0 steps has no end.
double lr_value(const LrPhase& phase, int64_t done);

}  // namespace piper::plan
