#include "tools/piper_plan/report.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>

#include "schemas/plan/bundle_io.h"
#include "schemas/plan/file_bytes.h"
#include "schemas/plan/json_reader.h"
#include "schemas/timeline/measured_timeline.h"
#include "schemas/timeline/priced.h"
#include "schemas/verify/describe.h"
#include "tools/piper_plan/commands.h"
#include "tools/piper_plan/target.h"

namespace piper::tools {
namespace {

using namespace timeline;

// A step with what is needed to account for it.
struct Played {
  Timeline timeline;
  std::vector<CriticalPiece> path;

  StepAccount account(const plan::Bundle& bundle) const {
    return {timeline.step, rank_times(bundle, timeline), line_costs(bundle, timeline, path)};
  }
};
Played played(const plan::Bundle& bundle, Timeline timeline) {
  auto path = critical_path(bundle, timeline);
  return {std::move(timeline), std::move(path)};
}

Result<Timeline> predict(const plan::Bundle& bundle, const ReportOptions& options, Report& report) {
  char text[96];
  report.units = options.target.empty();
  if (report.units) {
    std::snprintf(text, sizeof text, "unit costs (forward %g, backward %g)", options.costs.forward,
                  options.costs.backward);
    report.priced_by = text;
    return simulate(bundle, options.costs);
  }
  PIPER_ASSIGN(const TargetMachine target, read_target(options.target, options.kernel_times, bundle));
  const Priced prices(bundle, target.machine, 1, target.kernel_times);
  std::snprintf(text, sizeof text, ", %zu of %zu distinct kernel calls with measured times", prices.measured_calls(),
                prices.distinct_calls());
  report.priced_by = target.machine.name + text;
  return simulate_on(bundle, prices);
}

// The log's last line: {"summary": {.., "peak_memory_bytes": [..]}}.
Result<std::vector<int64_t>> measured_peaks(const std::string& path) {
  PIPER_ASSIGN(const auto file, plan::map_file(path));
  constexpr std::string_view kKey = "\"peak_memory_bytes\": ";
  const std::string_view text = file.text();
  const size_t summary = text.rfind("\"summary\""), at = text.find(kKey, std::min(summary, text.size()));
  if (summary == std::string_view::npos || at == std::string_view::npos)
    return Status::failure("", path + " has no summary with peak_memory_bytes: it is no log of a run that ended");
  const std::string_view rest = text.substr(at + kKey.size());
  plan::JsonReader reader(rest.substr(0, std::min(rest.size(), rest.find(']') + 1)), path);
  auto peaks = reader.integers();
  if (!reader.ok()) return reader.status();
  return peaks;
}

Status add_peaks(const plan::Bundle& bundle, const std::string& log, Report& report) {
  std::vector<int64_t> measured;
  if (!log.empty()) {
    PIPER_ASSIGN(measured, measured_peaks(log));
  }
  if (!log.empty() && measured.size() != bundle.manifest.ranks.size())
    return Status::failure("", log + " is of " + std::to_string(measured.size()) + " ranks, the bundle has " +
                                   std::to_string(bundle.manifest.ranks.size()));
  for (const plan::RankPlan& plan : bundle.ranks) {
    const auto rank = static_cast<size_t>(plan.rank);
    report.ranks.push_back(plan.rank);
    report.predicted_peak.push_back(rank < bundle.manifest.ranks.size() ? bundle.manifest.ranks[rank].peak_bytes : 0);
    if (rank < measured.size()) report.measured_peak.push_back(measured[rank]);
  }
  return {};
}

// The instructions of a path that take time in the predicted step; of a transfer its first end, whichever is on it.
std::vector<TransferEnd> compared(const plan::Bundle& bundle, const Timeline& predicted,
                                  const std::vector<CriticalPiece>& path) {
  const Causes causes(bundle, predicted);
  std::vector<TransferEnd> all;
  for (const CriticalPiece& piece : path) {
    TransferEnd at = piece.instruction;
    double takes = 0;
    if (const int32_t t = causes.transfer_of(at); t >= 0) {
      const Transfer& transfer = predicted.transfers[static_cast<size_t>(t)];
      at = predicted.ends_of(transfer)[0];
      takes = transfer.end - transfer.begin;
    } else {
      const auto& done = predicted.activities[static_cast<size_t>(at.plan)][static_cast<size_t>(at.instruction)];
      takes = done.kind == Kind::kWait ? 0 : done.end - done.begin;
    }
    const bool again = !all.empty() && all.back().plan == at.plan && all.back().instruction == at.instruction;
    if (takes > 0 && !again) all.push_back(at);
  }
  return all;
}

void find_parting(const plan::Bundle& bundle, const Played& predicted, const Played& measured, Report& report) {
  const auto a = compared(bundle, predicted.timeline, predicted.path);
  const auto b = compared(bundle, predicted.timeline, measured.path);
  size_t k = 0;
  while (k < std::min(a.size(), b.size()) && a[k].plan == b[k].plan && a[k].instruction == b[k].instruction) ++k;
  const auto told = [&](const std::vector<TransferEnd>& path) {
    if (k >= path.size()) return std::string();
    return verify::describe_instruction(bundle, bundle.ranks[static_cast<size_t>(path[k].plan)],
                                        static_cast<size_t>(path[k].instruction));
  };
  report.predicted_part = told(a);
  report.measured_part = told(b);
}

void pair_lines(Report& report) {
  std::map<std::string, const LineCost*> predicted;
  for (const LineCost& line : report.predicted.costs.lines) predicted[line.line] = &line;
  for (const LineCost& line : report.measured.costs.lines)
    report.lines.push_back({line.line, line.directive, *predicted.at(line.line), line});
}

}  // namespace

Result<std::string> report_lines(const std::string& directory, const std::string& profile,
                                 const ReportOptions& options) {
  PIPER_ASSIGN(const auto bundle, plan::read_bundle(directory));
  PIPER_ASSIGN(const Measured times, read_profile(bundle, profile));
  Report report;
  report.measured_by = profile;
  PIPER_ASSIGN(Timeline simulated, predict(bundle, options, report));
  PIPER_ASSIGN(Timeline run, measured_timeline(bundle, times));
  const Played predicted = played(bundle, std::move(simulated)), measured = played(bundle, std::move(run));
  report.predicted = predicted.account(bundle);
  report.measured = measured.account(bundle);
  PIPER_RETURN_IF_ERROR(add_peaks(bundle, options.log, report));
  find_parting(bundle, predicted, measured, report);
  pair_lines(report);
  switch (options.form) {
    case TableForm::kMarkdown: return report_as_markdown(report);
    case TableForm::kJson: return report_as_json(report);
    case TableForm::kText: break;
  }
  return report_as_text(report);
}

}  // namespace piper::tools
