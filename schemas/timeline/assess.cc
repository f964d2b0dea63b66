#include "schemas/timeline/assess.h"

#include <algorithm>
#include <map>
#include <utility>

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

bool computes(Kind kind) { return kind == Kind::kRun || kind == Kind::kUpdate; }

class PathFinder {
 public:
  PathFinder(const Bundle& bundle, const Timeline& timeline) : bundle_(bundle), timeline_(timeline) {
    for (size_t t = 0; t < timeline.transfers.size(); ++t)
      for (const TransferEnd& end : timeline.ends_of(timeline.transfers[t]))
        transfer_of_[{end.plan, end.instruction}] = static_cast<int32_t>(t);
    for (const RankPlan& plan : bundle.ranks) {
      std::vector<int32_t> before(plan.instructions.size(), -1), last(plan.streams.size(), -1);
      std::vector<int32_t> records(plan.events.size(), -1);
      for (size_t i = 0; i < plan.instructions.size(); ++i) {
        const Instruction& instruction = plan.instructions[i];
        before[i] = std::exchange(last[static_cast<size_t>(instruction.stream)], static_cast<int32_t>(i));
        if (const auto* record = std::get_if<Record>(&instruction.action))
          records[static_cast<size_t>(record->event)] = static_cast<int32_t>(i);
      }
      before_.push_back(std::move(before));
      records_.push_back(std::move(records));
    }
  }

  std::vector<CriticalPiece> find() const {
    std::vector<CriticalPiece> path;
    TransferEnd at = last_one();
    while (at.instruction >= 0) {
      const Activity& activity = of(at);
      const auto transfer = transfer_of_.find({at.plan, at.instruction});
      double begin = activity.begin;
      if (transfer != transfer_of_.end()) begin = timeline_.transfers[static_cast<size_t>(transfer->second)].begin;
      if (activity.kind == Kind::kWait) begin = activity.end;
      if (activity.end > begin) path.push_back({at, begin, activity.end});
      at = cause(at, transfer == transfer_of_.end() ? -1 : transfer->second);
    }
    std::reverse(path.begin(), path.end());
    return path;
  }

 private:
  const Activity& of(const TransferEnd& at) const {
    return timeline_.activities[static_cast<size_t>(at.plan)][static_cast<size_t>(at.instruction)];
  }
  TransferEnd last_one() const {
    TransferEnd last;
    double end = 0;
    for (size_t p = 0; p < timeline_.activities.size(); ++p)
      for (size_t i = 0; i < timeline_.activities[p].size(); ++i)
        if (timeline_.activities[p][i].end > end) {
          end = timeline_.activities[p][i].end;
          last = {static_cast<int32_t>(p), static_cast<int32_t>(i)};
        }
    return last;
  }
  TransferEnd before(const TransferEnd& at) const {
    return {at.plan, before_[static_cast<size_t>(at.plan)][static_cast<size_t>(at.instruction)]};
  }
  // What it could not begin before.
  TransferEnd cause(const TransferEnd& at, int32_t transfer) const {
    if (transfer >= 0) {
      TransferEnd latest = at;
      for (const TransferEnd& end : timeline_.ends_of(timeline_.transfers[static_cast<size_t>(transfer)]))
        if (of(end).begin > of(latest).begin) latest = end;
      return before(latest);
    }
    const auto& plan = bundle_.ranks[static_cast<size_t>(at.plan)];
    const auto* wait = std::get_if<Wait>(&plan.instructions[static_cast<size_t>(at.instruction)].action);
    if (wait == nullptr || of(at).end <= of(at).begin) return before(at);
    return {at.plan, records_[static_cast<size_t>(at.plan)][static_cast<size_t>(wait->event)]};
  }

  const Bundle& bundle_;
  const Timeline& timeline_;
  std::map<std::pair<int32_t, int32_t>, int32_t> transfer_of_;
  std::vector<std::vector<int32_t>> before_;   // [loaded rank][instruction] -> the one before it on its stream, or -1
  std::vector<std::vector<int32_t>> records_;  // [loaded rank][event] -> what records it
};

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
  return PathFinder(bundle, timeline).find();
}

std::vector<LineTime> by_line(const Bundle& bundle, const std::vector<CriticalPiece>& path) {
  std::map<std::pair<int32_t, Kind>, double> times;
  for (const CriticalPiece& piece : path) {
    const auto& instruction = bundle.ranks[static_cast<size_t>(piece.instruction.plan)]
                                  .instructions[static_cast<size_t>(piece.instruction.instruction)];
    times[{instruction.provenance, static_cast<Kind>(instruction.action.index())}] += piece.end - piece.begin;
  }
  std::vector<LineTime> lines;
  for (const auto& [key, time] : times) {
    const auto entry = static_cast<size_t>(key.first);
    lines.push_back({key.first >= 0 && entry < bundle.provenance.size() ? bundle.provenance[entry].key : "the step",
                     key.second, time});
  }
  std::stable_sort(lines.begin(), lines.end(), [](const LineTime& a, const LineTime& b) { return a.time > b.time; });
  return lines;
}

}  // namespace piper::timeline
