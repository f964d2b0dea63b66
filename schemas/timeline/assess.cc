#include "schemas/timeline/assess.h"

#include <algorithm>
#include <map>

#include "schemas/plan/provenance_text.h"
#include "schemas/timeline/causes.h"

namespace piper::timeline {
namespace {

using namespace plan;

struct Interval {
  double begin, end;
};
// Sorted, without overlap.
std::vector<Interval> merged(std::vector<Interval> all) {
  std::sort(all.begin(), all.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::vector<Interval> out;
  for (const Interval& next : all) {
    if (next.end <= next.begin) continue;
    if (!out.empty() && next.begin <= out.back().end) out.back().end = std::max(out.back().end, next.end);
    else out.push_back(next);
  }
  return out;
}
double length(const std::vector<Interval>& all) {
  double sum = 0;
  for (const Interval& one : all) sum += one.end - one.begin;
  return sum;
}

}  // namespace

std::vector<RankTime> rank_times(const Bundle& bundle, const Timeline& timeline) {
  std::vector<std::vector<Interval>> moving(bundle.ranks.size());
  for (const Transfer& transfer : timeline.transfers)
    for (const TransferEnd& end : timeline.ends_of(transfer))
      moving[static_cast<size_t>(end.plan)].push_back({transfer.begin, transfer.end});
  std::vector<RankTime> times;
  for (size_t p = 0; p < bundle.ranks.size(); ++p) {
    std::vector<Interval> work;
    for (const Activity& activity : timeline.activities[p])
      if (computes(activity.kind)) work.push_back({activity.begin, activity.end});
    RankTime time;
    work = merged(std::move(work));
    time.busy = length(work);
    work.insert(work.end(), moving[p].begin(), moving[p].end());
    time.communication = length(merged(std::move(work))) - time.busy;
    time.waiting = timeline.step - time.busy - time.communication;
    times.push_back(time);
  }
  return times;
}

std::vector<CriticalPiece> critical_path(const Bundle& bundle, const Timeline& timeline) {
  const Causes causes(bundle, timeline);
  return causes.path_to(causes.last_one());
}

std::vector<LineTime> by_line(const Bundle& bundle, const std::vector<CriticalPiece>& path) {
  // Collectives of a cut are one line, whatever each of them is for.
  std::vector<int32_t> first_of(bundle.provenance.size());
  std::map<std::string, int32_t> lines_with_reasons;
  for (size_t i = 0; i < first_of.size(); ++i) {
    const auto entry = static_cast<int32_t>(i);
    const ProvenanceEntry& origin = bundle.provenance[i];
    first_of[i] = origin.why.empty() ? entry : lines_with_reasons.emplace(strategy_line(origin), entry).first->second;
  }
  std::map<std::pair<int32_t, Kind>, double> times;
  for (const CriticalPiece& piece : path) {
    const auto& instruction = bundle.ranks[static_cast<size_t>(piece.instruction.plan)]
                                  .instructions[static_cast<size_t>(piece.instruction.instruction)];
    const int32_t entry = instruction.provenance < 0 ? -1 : first_of.at(static_cast<size_t>(instruction.provenance));
    times[{entry, static_cast<Kind>(instruction.action.index())}] += piece.end - piece.begin;
  }
  std::vector<LineTime> lines;
  for (const auto& [key, time] : times) {
    const auto entry = static_cast<size_t>(key.first);
    const auto name = [&](const ProvenanceEntry& origin) {
      return origin.why.empty() ? origin.key : strategy_line(origin);
    };
    lines.push_back({key.first < 0 ? "the step" : name(bundle.provenance[entry]), key.second, time});
  }
  std::stable_sort(lines.begin(), lines.end(), [](const LineTime& a, const LineTime& b) { return a.time > b.time; });
  return lines;
}

}  // namespace piper::timeline
