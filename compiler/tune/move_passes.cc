#include <algorithm>
#include <cstdlib>
#include <memory>

#include "compiler/tune/list_schedule.h"
#include "compiler/tune/pass_table.h"
#include "compiler/tune/proposals.h"

namespace piper::tune {
namespace {

using strategy::Action;
using strategy::Pass;
using strategy::ScheduleTable;
using strategy::Slot;

// The trial outlives its proposals.
Proposal of_table(const Trial& trial, const PassTable& old, ScheduleTable changed, std::string what) {
  return {std::move(what), [&trial, old, changed = std::move(changed)](const std::string& comment) {
            return with_passes(trial.text, *trial.compilation, old, changed, comment);
          }};
}

std::string described(const ListScheduleOptions& options) {
  std::string text = "passes by list scheduling";
  const int32_t more = options.more_in_flight;
  if (more != 0)
    text += ", " + std::to_string(std::abs(more)) + (more > 0 ? " more" : " fewer") + " forwards in flight";
  if (options.backward == ListScheduleOptions::Backward::kHalves) text += ", backwards in halves";
  switch (options.overlap) {
    case ListScheduleOptions::Overlap::kNone: break;
    case ListScheduleOptions::Overlap::kOpposite: text += ", forwards overlap backwards"; break;
    case ListScheduleOptions::Overlap::kAny: text += ", passes overlap"; break;
  }
  return text;
}

// `changes`: of forwards in flight.
std::vector<Proposal> by_list_schedules(const Trial& trial, const PassTable& passes,
                                        const std::vector<int32_t>& changes) {
  const PassTimes times(trial.compilation->emitted.bundle, trial.timeline, passes.tag,
                        static_cast<int32_t>(passes.table.stage_rank.size()));
  std::vector<Proposal> proposals;
  std::vector<ScheduleTable> seen = {passes.table};
  using Options = ListScheduleOptions;
  for (const int32_t more : changes)
    for (const auto overlap : {Options::Overlap::kNone, Options::Overlap::kOpposite, Options::Overlap::kAny})
      for (const auto backward : {Options::Backward::kAsGiven, Options::Backward::kHalves})
        for (const auto urgent : {Options::Urgent::kBackward, Options::Urgent::kLongestPath}) {
          const Options options{urgent, overlap, backward, more};
          ScheduleTable table = list_schedule(passes.table, times, options);
          if (std::any_of(seen.begin(), seen.end(), [&](const auto& other) { return other.rows == table.rows; }))
            continue;
          seen.push_back(table);
          proposals.push_back(of_table(trial, passes, std::move(table), described(options)));
        }
  return proposals;
}

// Passes whose sequence is kept: of one kind of a stage, those that add to its gradients, and those of one microbatch.
bool same_queue(const Action& a, const Action& b) {
  const auto closes = [](Pass pass) { return pass == Pass::kB || pass == Pass::kBW; };
  const auto kind = [](Pass pass) { return pass == Pass::kBI ? Pass::kB : pass; };
  return a.stage == b.stage &&
         (kind(a.pass) == kind(b.pass) || (closes(a.pass) && closes(b.pass)) || a.microbatch == b.microbatch);
}
bool any_same_queue(const Slot& a, const Slot& b) {
  return std::any_of(a.begin(), a.end(), [&](const Action& x) {
    return std::any_of(b.begin(), b.end(), [&](const Action& y) { return same_queue(x, y); });
  });
}
bool needs(const Slot& a, const Slot& b) {
  return std::any_of(a.begin(), a.end(), [&](const Action& x) {
    return std::any_of(b.begin(), b.end(),
                       [&](const Action& y) { return x.microbatch == y.microbatch && x.stage == y.stage; });
  });
}

// The moves of the slot at this place of a row, and the one after it.
struct Move {
  size_t row = 0, slot = 0;
  enum Kind : uint8_t { kPart, kJoin, kSwap } kind = kSwap;
};
ScheduleTable moved(ScheduleTable table, const Move& move) {
  auto& row = table.rows[move.row];
  const auto behind = row.begin() + static_cast<std::ptrdiff_t>(move.slot) + 1;
  Slot& slot = row[move.slot];
  switch (move.kind) {
    case Move::kPart: {
      Slot second = {slot[1]};
      slot.pop_back();
      row.insert(behind, std::move(second));
      break;
    }
    case Move::kJoin:
      slot.push_back((*behind)[0]);
      row.erase(behind);
      break;
    case Move::kSwap: std::swap(slot, *behind); break;
  }
  return table;
}

std::string told(const Slot& slot) {
  std::string text;
  for (const Action& a : slot) {
    static constexpr const char* kNames[] = {"F", "B", "BI", "BW"};
    text += (text.empty() ? "" : "+") + std::string(kNames[static_cast<size_t>(a.pass)]) + std::to_string(a.stage) +
            "." + std::to_string(a.microbatch);
  }
  return text;
}

}  // namespace

std::vector<Proposal> moved_passes(const Trial& trial) {
  const auto passes = pass_table_of(*trial.compilation);
  if (!passes) return {};
  const auto rows = static_cast<int32_t>(passes->table.rows.size());
  std::vector<int32_t> changes;
  for (int32_t more = 0; more <= std::max(2, rows); more = more < 2 ? more + 1 : 2 * more) changes.push_back(more);
  return by_list_schedules(trial, *passes, changes);
}

std::vector<Proposal> fewer_in_flight(const Trial& trial) {
  const auto passes = trial.excess_bytes > 0 ? pass_table_of(*trial.compilation) : std::nullopt;
  if (!passes) return {};
  const auto in_flight = most_in_flight(passes->table);
  const int32_t most = *std::max_element(in_flight.begin(), in_flight.end());
  std::vector<int32_t> changes;
  for (int32_t fewer = 1; fewer < most; fewer = fewer < 2 ? fewer + 1 : 2 * fewer) changes.push_back(-fewer);
  return by_list_schedules(trial, *passes, changes);
}

std::vector<Proposal> neighbours(const Trial& trial) {
  std::vector<Proposal> proposals;
  auto found = pass_table_of(*trial.compilation);
  if (!found) return proposals;
  // A step of many ranks has as many moves as passes: each is made when it is tried.
  const auto passes = std::make_shared<const PassTable>(std::move(*found));
  const auto propose = [&](const Move& move, std::string what) {
    proposals.push_back({std::move(what), [&trial, passes, move](const std::string& comment) {
                           return with_passes(trial.text, *trial.compilation, *passes, moved(passes->table, move),
                                              comment);
                         }});
  };
  for (size_t r = 0; r < passes->table.rows.size(); ++r) {
    const auto& row = passes->table.rows[r];
    for (size_t k = 0; k < row.size(); ++k) {
      if (row[k].size() == 2) propose({r, k, Move::kPart}, "slot " + told(row[k]) + " taken apart");
      if (k + 1 == row.size() || needs(row[k], row[k + 1])) continue;
      if (row[k].size() == 1 && row[k + 1].size() == 1)
        propose({r, k, Move::kJoin}, told(row[k]) + " and " + told(row[k + 1]) + " in one slot");
      if (!any_same_queue(row[k], row[k + 1]))
        propose({r, k, Move::kSwap}, told(row[k + 1]) + " before " + told(row[k]));
    }
  }
  return proposals;
}

}  // namespace piper::tune
