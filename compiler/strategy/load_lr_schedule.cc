// The section `lr_schedule`: one curve after the warm-up, WSD, or a list of phases.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/strategy/load_sections.h"
#include "schemas/plan/lr_curves.h"

namespace piper::strategy {
namespace {

using plan::LrCurve;
using plan::LrCurveInfo;
using plan::LrPhase;

constexpr std::string_view kWsd = "wsd", kPhases = "phases";

std::string quoted(std::string_view name) { return "'" + std::string(name) + "'"; }

// The step with which a curve ends.
int64_t read_until(ReadContext& context, MapReader& inner, int64_t warmup) {
  const Value* value = inner.require("until", "add the step at which it ends, as in {until: 10000}");
  if (value == nullptr) return warmup + 1;
  const int64_t until = read_int(context, *value, "'until'", 1, INT64_MAX).value_or(warmup + 1);
  if (until <= warmup)
    context.diags.error("P0207", value->span) << "'until' (" << until << ") must be after 'warmup' (" << warmup << ")";
  return until;
}

void read_above_zero(ReadContext& context, const Value& value, const std::string& what, double& out) {
  const auto number = read_number(context, value, what);
  if (!number) return;
  if (*number > 0) out = *number;
  else context.diags.error("P0207", value.span) << what << " must be greater than 0, not " << *number;
}

// What the row of a curve gives a strategy to say.
void read_curve_numbers(ReadContext& context, MapReader& inner, const LrCurveInfo& info, LrPhase& phase) {
  if (info.has(LrCurveInfo::kTo)) read_bounded(context, inner.get("to"), "'to'", {}, phase.to);
  if (info.has(LrCurveInfo::kPower))
    if (const Value* power = inner.get("power")) read_above_zero(context, *power, "'power'", phase.power);
  if (!info.has(LrCurveInfo::kTimescale)) return;
  // That of the warm-up, whose end the curve then goes on from as if it had begun there.
  const Value* timescale =
      phase.timescale > 0
          ? inner.get("timescale")
          : inner.require("timescale", "add the steps after which it begins to fall, as in {timescale: 1000}");
  if (timescale != nullptr) read_above_zero(context, *timescale, "'timescale'", phase.timescale);
}

// A curve by itself, from the end of the warm-up on.
void read_curve(ReadContext& context, const Value& value, const LrCurveInfo& info, plan::LrSchedule& schedule) {
  MapReader inner(context, value, quoted(info.name));
  if (!inner.ok()) return;
  LrPhase phase{info.curve, 0, 1, 0, 1, static_cast<double>(schedule.warmup)};
  if (info.has(LrCurveInfo::kTo)) {
    schedule.until = read_until(context, inner, schedule.warmup);
    phase.steps = schedule.until - schedule.warmup;
  }
  read_curve_numbers(context, inner, info, phase);
  inner.finish();
  if (info.curve == LrCurve::kCosine || info.curve == LrCurve::kLinear) {
    schedule.kind = info.name;
    schedule.to = phase.to;
    return;
  }
  schedule.until = 0;
  schedule.phases = {phase};
}

// Stable at 1, then down.
void read_wsd(ReadContext& context, const Value& value, plan::LrSchedule& schedule) {
  MapReader inner(context, value, "'wsd'");
  if (!inner.ok()) return;
  const int64_t until = read_until(context, inner, schedule.warmup);
  LrPhase down{LrCurve::kLinear, 1};
  if (const Value* decay = inner.require("decay", "add the number of steps that it falls, as in {decay: 1000}")) {
    down.steps = read_int(context, *decay, "'decay'", 1, INT64_MAX).value_or(1);
    if (until > schedule.warmup && down.steps > until - schedule.warmup)
      context.diags.error("P0207", decay->span) << "'decay' (" << down.steps << ") must be at most the "
                                                << until - schedule.warmup << " steps from 'warmup' to 'until'";
  }
  read_bounded(context, inner.get("to"), "'to'", {}, down.to);
  if (const Value* shape = inner.get("shape")) {
    std::vector<std::string> shapes;
    for (const LrCurveInfo& info : plan::kLrCurves)
      if (info.numbers == LrCurveInfo::kTo) shapes.emplace_back(info.name);
    const auto name = read_choice(context, *shape, "'shape'", shapes);
    if (name) down.curve = *plan::lr_curve_from_name(*name);
  }
  inner.finish();
  const int64_t stable = until - schedule.warmup - down.steps;
  if (stable > 0) schedule.phases.push_back({LrCurve::kConstant, stable});
  schedule.phases.push_back(down);
}

std::vector<std::string_view> curve_names() {
  std::vector<std::string_view> names;
  for (const LrCurveInfo& info : plan::kLrCurves) names.push_back(info.name);
  return names;
}

// `from`: the factor with which the phase in front has ended.
void read_phase(ReadContext& context, const Value& value, double from, bool last, plan::LrSchedule& schedule) {
  MapReader reader(context, value, "a phase");
  if (!reader.ok()) return;
  LrPhase phase;
  phase.from = from;
  phase.timescale = 0;
  if (reader.alternatives(curve_names()) == 0)
    context.diags.error("P0206", value.span).help("for example {steps: 100, linear: {from: 0, to: 1}}")
        << "a phase has no curve";
  for (const LrCurveInfo& info : plan::kLrCurves) {
    const Value* fields = reader.get(info.name);
    if (fields == nullptr) continue;
    phase.curve = info.curve;
    if (info.curve == LrCurve::kConstant) {
      read_bounded(context, fields, "'constant'", {}, phase.from);
      continue;
    }
    MapReader inner(context, *fields, quoted(info.name));
    read_bounded(context, inner.get("from"), "'from'", {}, phase.from);
    read_curve_numbers(context, inner, info, phase);
    inner.finish();
  }
  const bool may_go_on = last && !plan::lr_curve(phase.curve).has(LrCurveInfo::kTo);
  if (const Value* steps =
          may_go_on ? reader.get("steps") : reader.require("steps", "add the number of steps, as in {steps: 1000}"))
    phase.steps = read_int(context, *steps, "'steps'", 1, INT64_MAX).value_or(1);
  reader.finish();
  schedule.phases.push_back(phase);
}

void read_phases(ReadContext& context, const Value& value, plan::LrSchedule& schedule) {
  if (value.kind != Value::Kind::kList || value.items.empty()) {
    context.diags.error("P0202", value.span).help("for example [{steps: 100, linear: {from: 0, to: 1}}, {constant: 1}]")
        << "'phases' must be a list of phases";
    return;
  }
  double from = 1;
  for (const Value& item : value.items) {
    read_phase(context, item, from, &item == &value.items.back(), schedule);
    if (!schedule.phases.empty()) from = plan::lr_value(schedule.phases.back(), schedule.phases.back().steps);
  }
}

}  // namespace

void load_lr_schedule(ReadContext& context, const Value& value, Strategy& out) {
  MapReader reader(context, value, "'lr_schedule'");
  if (!reader.ok()) return;
  plan::LrSchedule& schedule = out.lr_schedule;
  if (const Value* warmup = reader.get("warmup"))
    schedule.warmup = read_int(context, *warmup, "'warmup'", 0, INT64_MAX).value_or(0);
  std::vector<std::string_view> names = curve_names();
  names.push_back(kWsd);
  names.push_back(kPhases);
  reader.alternatives(names);
  for (const LrCurveInfo& info : plan::kLrCurves) {
    const Value* curve = reader.get(info.name);
    if (curve == nullptr) continue;
    if (info.curve == LrCurve::kConstant) read_bounded(context, curve, "'constant'", {}, schedule.constant);
    else read_curve(context, *curve, info, schedule);
  }
  if (const Value* wsd = reader.get(kWsd)) read_wsd(context, *wsd, schedule);
  if (const Value* phases = reader.get(kPhases)) read_phases(context, *phases, schedule);
  if (!schedule.phases.empty()) schedule.kind = kPhases;
  reader.finish();
}

}  // namespace piper::strategy
