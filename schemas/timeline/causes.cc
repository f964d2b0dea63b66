#include "schemas/timeline/causes.h"

#include "schemas/plan/actions.h"

#include <algorithm>
#include <utility>

namespace piper::timeline {

using namespace plan;

Causes::Causes(const Bundle& bundle, const Timeline& timeline) : bundle_(bundle), timeline_(timeline) {
  for (const RankPlan& plan : bundle.ranks) {
    std::vector<int32_t> before(plan.instructions.size(), -1), last(plan.streams.size(), -1);
    std::vector<int32_t> records(plan.events.size(), -1);
    for (size_t i = 0; i < plan.instructions.size(); ++i) {
      const Instruction& instruction = plan.instructions[i];
      before[i] = std::exchange(last[static_cast<size_t>(instruction.stream)], static_cast<int32_t>(i));
      if (const int32_t event = recorded_event(instruction.action); event >= 0)
        records[static_cast<size_t>(event)] = static_cast<int32_t>(i);
    }
    before_.push_back(std::move(before));
    records_.push_back(std::move(records));
    transfers_.emplace_back(plan.instructions.size(), -1);
    num_instructions_ += plan.instructions.size();
  }
  for (size_t t = 0; t < timeline.transfers.size(); ++t)
    for (const TransferEnd& end : timeline.ends_of(timeline.transfers[t]))
      transfers_[static_cast<size_t>(end.plan)][static_cast<size_t>(end.instruction)] = static_cast<int32_t>(t);
}

const Activity& Causes::of(const TransferEnd& at) const {
  return timeline_.activities[static_cast<size_t>(at.plan)][static_cast<size_t>(at.instruction)];
}
TransferEnd Causes::before(const TransferEnd& at) const {
  return {at.plan, before_[static_cast<size_t>(at.plan)][static_cast<size_t>(at.instruction)]};
}
int32_t Causes::transfer_of(const TransferEnd& at) const {
  return transfers_[static_cast<size_t>(at.plan)][static_cast<size_t>(at.instruction)];
}

TransferEnd Causes::last_one() const {
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

// Where a message is measured, its sender can be done before the receiver has come: then it waited for nobody.
TransferEnd Causes::cause(const TransferEnd& at, int32_t transfer) const {
  if (transfer >= 0) {
    TransferEnd latest = at;
    for (const TransferEnd& end : timeline_.ends_of(timeline_.transfers[static_cast<size_t>(transfer)]))
      if (of(end).begin > of(latest).begin && of(end).begin <= of(at).end) latest = end;
    return before(latest);
  }
  const auto& plan = bundle_.ranks[static_cast<size_t>(at.plan)];
  const int32_t event = awaited_event(plan.instructions[static_cast<size_t>(at.instruction)].action);
  if (event < 0) return before(at);
  const TransferEnd record{at.plan, records_[static_cast<size_t>(at.plan)][static_cast<size_t>(event)]};
  return of(record).end > of(at).begin ? record : before(at);
}

std::vector<CriticalPiece> Causes::path_to(TransferEnd at, double since) const {
  std::vector<CriticalPiece> path;
  double until = at.instruction >= 0 ? of(at).end : 0;
  // Means of measured times may contradict each other; a path visits an instruction once.
  for (size_t left = num_instructions_; at.instruction >= 0 && until > since && left > 0; --left) {
    const Activity& activity = of(at);
    const int32_t transfer = transfer_of(at);
    double begin = activity.begin;
    if (transfer >= 0) begin = std::max(begin, timeline_.transfers[static_cast<size_t>(transfer)].begin);
    if (activity.kind == Kind::kWait) begin = activity.end;
    begin = std::max(begin, since);
    if (const double end = std::min(activity.end, until); end > begin) {
      path.push_back({at, begin, end});
      until = begin;
    }
    at = cause(at, transfer);
  }
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace piper::timeline
