#include "compiler/search/played_table.h"

#include <algorithm>

#include "schemas/base/check.h"

namespace piper::search {
namespace {

using strategy::Action;
using strategy::Pass;

const PassCost& cost_of(const StageCost& stage, Pass pass) {
  switch (pass) {
    case Pass::kF: return stage.forward;
    case Pass::kB: return stage.backward;
    case Pass::kBI: return stage.backward_input;
    case Pass::kBW: return stage.backward_weight;
  }
  return stage.forward;
}

// When the stage before gets its gradient. Where a schedule has halves, a whole backward is one after the other, and
// the gradient leaves after the first.
double handed_on_us(const StageCost& stage, Pass pass, double whole_us, bool overlaps) {
  const PassCost& input = stage.backward_input;
  if (pass != Pass::kB || input.work <= 0) return whole_us;
  return std::min(whole_us, overlaps ? input.work : input.alone);
}

class Player {
 public:
  Player(const strategy::ScheduleTable& table, const std::vector<StageCost>& stages) : table_(table), stages_(stages) {
    const size_t rows = table.rows.size(), microbatches = table.stage_rank[0].size();
    for (auto& ends : ends_) ends.assign(stages.size(), std::vector<double>(microbatches, -1));
    played_.end.assign(rows, 0);
    played_.work.assign(rows, 0);
    played_.last_backward.assign(rows, std::vector<double>(stages.size(), -1));
    played_.most_live.assign(rows, 0);
    next_.assign(rows, 0);
    for (const auto& row : table.rows)
      for (const strategy::Slot& slot : row) overlaps_ |= slot.size() > 1;
    played_.backwards.assign(rows, std::vector<int64_t>(stages.size(), 0));
  }

  PlayedTable play() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t row = 0; row < table_.rows.size(); ++row)
        while (next_[row] < table_.rows[row].size() && slot(row)) moved = true;
    }
    for (size_t row = 0; row < table_.rows.size(); ++row) {
      PIPER_CHECK(next_[row] == table_.rows[row].size(), "a schedule's table does not play to its end");
      memory_of(row);
    }
    return std::move(played_);
  }

 private:
  double& end_of(Pass pass, int32_t stage, int32_t microbatch) {
    const size_t kind = pass == Pass::kF ? 0 : pass == Pass::kBW ? 2 : 1;
    return ends_[kind][static_cast<size_t>(stage)][static_cast<size_t>(microbatch)];
  }

  // When what a pass reads is there; -1: not yet known.
  double ready(const Action& a) {
    const auto last = static_cast<int32_t>(stages_.size()) - 1;
    if (a.pass == Pass::kF) return a.stage == 0 ? 0 : end_of(Pass::kF, a.stage - 1, a.microbatch);
    if (a.pass == Pass::kBW) return end_of(Pass::kBI, a.stage, a.microbatch);
    const double own = end_of(Pass::kF, a.stage, a.microbatch);
    if (own < 0 || a.stage == last) return own;
    const double after = end_of(Pass::kB, a.stage + 1, a.microbatch);
    return after < 0 ? -1 : std::max(own, after);
  }

  // Plays the row's next slot; false where what it reads is not there yet. Passes of one slot may read what another
  // one of the same slot makes.
  bool slot(size_t row) {
    const strategy::Slot& slot = table_.rows[row][next_[row]];
    const double from = played_.end[row];
    double first = -1, work = 0, until = from;
    std::vector<int32_t> made;  // stages of which gradients are made
    for (const Action& action : slot) {
      const double there = ready(action);
      if (there < 0) return undo(slot);
      const StageCost& stage = stages_[static_cast<size_t>(action.stage)];
      const PassCost& cost = cost_of(stage, action.pass);
      const bool repeats = action.pass == Pass::kB || action.pass == Pass::kBI;
      const double begin = std::max(from, there - (repeats ? stage.repeated_us : 0));
      const double least = overlaps_ ? cost.work : cost.alone;
      end_of(action.pass, action.stage, action.microbatch) = begin + handed_on_us(stage, action.pass, least, overlaps_);
      first = first < 0 ? begin : std::min(first, begin);
      work += cost.work;
      until = std::max(until, begin + least);
      if (action.pass != Pass::kB && action.pass != Pass::kBW) continue;
      played_.last_backward[row][static_cast<size_t>(action.stage)] = begin;
      made.push_back(action.stage);
    }
    for (const int32_t stage : made) ++played_.backwards[row][static_cast<size_t>(stage)];
    played_.end[row] = std::max(until, first + work);
    played_.work[row] += work;
    ++next_[row];
    return true;
  }
  bool undo(const strategy::Slot& slot) {
    for (const Action& action : slot) end_of(action.pass, action.stage, action.microbatch) = -1;
    return false;
  }

  // The peak of one microbatch is in its forward or in its backward, on top of what is open for others; which of both
  // is not known.
  void memory_of(size_t row) {
    std::vector<double> in_forward(stages_.size(), 0), in_backward(stages_.size(), 0);
    double live = 0;
    double& most = played_.most_live[row];
    for (const strategy::Slot& slot : table_.rows[row])
      for (const Action& action : slot) {
        const auto at = static_cast<size_t>(action.stage);
        const auto saved = static_cast<double>(stages_[at].saved_bytes);
        const auto kept = static_cast<double>(stages_[at].between_halves_bytes);
        const double others = action.pass == Pass::kF ? live : live - saved;
        if (action.pass != Pass::kBW) {
          double& peak = action.pass == Pass::kF ? in_forward[at] : in_backward[at];
          peak = std::max(peak, others + static_cast<double>(stages_[at].in_passes_bytes));
        }
        switch (action.pass) {
          case Pass::kF: live += saved; break;
          case Pass::kB: live -= saved; break;
          case Pass::kBI: live += kept - saved; break;
          case Pass::kBW: live -= kept; break;
        }
        most = std::max(most, live);
      }
    for (size_t stage = 0; stage < stages_.size(); ++stage)
      most = std::max({most, std::min(in_forward[stage], in_backward[stage]),
                       in_forward[stage] > 0 ? static_cast<double>(stages_[stage].one_microbatch_bytes) : 0});
  }

  const strategy::ScheduleTable& table_;
  const std::vector<StageCost>& stages_;
  std::vector<std::vector<double>> ends_[3];  // of forwards, backwards or their input halves, weight halves
  std::vector<size_t> next_;
  bool overlaps_ = false;  // passes share slots: a weight half may fill the time of another slot's exchanges
  PlayedTable played_;
};

}  // namespace

PlayedTable play_table(const strategy::ScheduleTable& table, const std::vector<StageCost>& stages) {
  return Player(table, stages).play();
}

}  // namespace piper::search
