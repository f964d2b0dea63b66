#include "compiler/search/pass_exchanges.h"

#include <algorithm>

#include "schemas/plan/actions.h"

namespace piper::search {
namespace {

using Index = int32_t;  // of an instruction; -1: none

// Which instruction each run and each collective waits for: the last one of a stream before the record of an event.
class WaitedFor {
 public:
  explicit WaitedFor(const plan::RankPlan& plan) : of_(plan.instructions.size()) {
    std::vector<Index> last(plan.streams.size(), -1);
    std::vector<std::vector<Index>> since(plan.streams.size());  // the last one of the stream
    std::map<int32_t, Index> recorded;                           // by event
    for (size_t i = 0; i < plan.instructions.size(); ++i) {
      const plan::Instruction& instruction = plan.instructions[i];
      const auto stream = static_cast<size_t>(instruction.stream);
      std::visit(plan::Cases{[&](const plan::Record& record) { recorded[record.event] = last[stream]; },
                             [&](const plan::Wait& wait) {
                               const auto found = recorded.find(wait.event);
                               if (found != recorded.end() && found->second >= 0)
                                 since[stream].push_back(found->second);
                             },
                             [&](const auto&) {
                               of_[i] = std::move(since[stream]);
                               since[stream].clear();
                               last[stream] = static_cast<Index>(i);
                             }},
                 instruction.action);
    }
  }
  const std::vector<Index>& of(Index instruction) const { return of_[static_cast<size_t>(instruction)]; }

 private:
  std::vector<std::vector<Index>> of_;
};

class Exchanges {
 public:
  Exchanges(const PlayedStep& step, size_t rank)
      : plan_(step.kinds->bundle.ranks[rank]),
        activities_(step.timeline.activities[rank]),
        waited_for_(plan_),
        takes_(plan_.instructions.size(), -1) {
    for (const timeline::Transfer& transfer : step.timeline.transfers)
      for (const timeline::TransferEnd& end : step.timeline.ends_of(transfer)) {
        if (static_cast<size_t>(end.plan) != rank) continue;
        const auto at = static_cast<size_t>(end.instruction);
        if (is_collective(at)) takes_[at] = transfer.end - transfer.begin;
      }
  }

  // The exchanges between one microbatch's runs of a pass.
  double inside(const std::vector<Index>& runs) const {
    double us = 0;
    for (size_t k = 1; k < runs.size(); ++k) {
      const double gap = at(runs[k]).begin - at(runs[k - 1]).end;
      double longest = 0;
      for (const Index before : waited_for_.of(runs[k]))
        longest = std::max(longest, chain(before, runs.front(), runs[k - 1], runs));
      us += std::max(0.0, std::min(gap, longest));
    }
    return us;
  }

 private:
  const timeline::Activity& at(Index instruction) const { return activities_[static_cast<size_t>(instruction)]; }
  bool is_collective(size_t instruction) const {
    return std::visit(
        plan::Cases{[](const plan::IsCollective auto&) { return true; }, [](const auto&) { return false; }},
        plan_.instructions[instruction].action);
  }

  // What collectives take from one of the runs to the end of this one; -1 where it does not follow from them.
  double chain(Index last, Index first_run, Index last_run, const std::vector<Index>& runs) const {
    if (takes_[static_cast<size_t>(last)] < 0 || last < first_run) return -1;
    double before = -1;
    for (const Index one : waited_for_.of(last)) {
      const bool own = one <= last_run && std::binary_search(runs.begin(), runs.end(), one);
      before = std::max(before, own ? 0 : chain(one, first_run, last_run, runs));
    }
    return before < 0 ? -1 : before + takes_[static_cast<size_t>(last)];
  }

  const plan::RankPlan& plan_;
  const std::vector<timeline::Activity>& activities_;
  WaitedFor waited_for_;
  std::vector<double> takes_;  // [instruction] of a collective, from when all members have come; -1 of others
};

}  // namespace

std::map<plan::Pass, std::vector<double>> exchanges_of_passes(const PlayedStep& step, size_t loaded_rank,
                                                              size_t microbatches) {
  const plan::RankPlan& plan = step.kinds->bundle.ranks[loaded_rank];
  std::map<plan::Pass, std::vector<Index>> runs;
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const int32_t program = plan::launch_of(plan.instructions[i].action).program;
    if (program < 0) continue;
    const auto& of = step.kinds->bundle.programs[static_cast<size_t>(program)].of;
    if (of) runs[of->pass].push_back(static_cast<Index>(i));
  }
  const Exchanges exchanges(step, loaded_rank);
  std::map<plan::Pass, std::vector<double>> inside;
  for (const auto& [pass, all] : runs) {
    const auto each = static_cast<ptrdiff_t>(all.size() / microbatches);
    for (auto from = all.begin(); all.end() - from >= each && each > 0; from += each)
      inside[pass].push_back(exchanges.inside({from, from + each}));
  }
  return inside;
}

}  // namespace piper::search
