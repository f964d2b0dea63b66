#include "compiler/tune/list_schedule.h"

#include <algorithm>
#include <array>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <set>

namespace piper::tune {
namespace {

using strategy::Action;
using strategy::Pass;
using strategy::ScheduleTable;
using strategy::Slot;

// A pass that is ready before this part of its partner is over shares a slot with it.
constexpr double kPatience = 0.5;

enum Queue : size_t { kForwards, kBackwards, kWeights, kNumQueues };
Queue queue_of(Pass pass) { return pass == Pass::kF ? kForwards : pass == Pass::kBW ? kWeights : kBackwards; }
bool closes(Pass pass) { return pass == Pass::kB || pass == Pass::kBW; }

class Scheduler {
 public:
  Scheduler(const ScheduleTable& given, const PassTimes& times, const ListScheduleOptions& options)
      : given_(given), times_(times), options_(options), bound_(most_in_flight(given)), rows_(given.rows.size()) {
    for (int32_t& bound : bound_) bound = std::max(1, bound + options.more_in_flight);
    std::set<std::pair<int32_t, int32_t>> halved;
    for (const auto& row : given.rows)
      for (const Slot& slot : row)
        for (const Action& a : slot)
          if (a.pass == Pass::kBI || (a.pass == Pass::kB && options.backward == ListScheduleOptions::Backward::kHalves))
            halved.insert({a.stage, a.microbatch});
    for (size_t r = 0; r < rows_.size(); ++r)
      for (const Slot& slot : given.rows[r])
        for (const Action& a : slot) {
          const bool halves = a.pass == Pass::kB && halved.count({a.stage, a.microbatch}) > 0;
          push(r, {a.stage, a.microbatch, halves ? Pass::kBI : a.pass});
          if (halves) push(r, {a.stage, a.microbatch, Pass::kBW});
          if (closes(a.pass)) rows_[r].turns[a.stage].push_back(a.microbatch);
        }
  }

  ScheduleTable run() {
    ScheduleTable table;
    table.rows.resize(rows_.size());
    table.stage_rank = given_.stage_rank;
    while (left_ > 0) {
      std::optional<Choice> next;
      for (const bool bounded : {true, false}) {
        for (size_t r = 0; r < rows_.size(); ++r)
          if (const auto choice = choose(r, bounded); choice && (!next || choice->start < next->start)) next = choice;
        if (next) break;
      }
      if (!next) break;  // a table that cannot run: verified by nobody yet, and refused when it is compiled
      table.rows[next->row].push_back(take(*next));
    }
    return table;
  }

 private:
  struct Choice {
    size_t row = 0;
    double start = 0;
    Action action;
  };
  struct Row {
    double free = 0;
    int32_t in_flight = 0;
    std::map<int32_t, std::array<std::deque<Action>, kNumQueues>> queues = {};  // by stage
    std::map<int32_t, std::deque<int32_t>> turns = {};  // by stage: microbatches, as they add to its gradients
  };
  using Key = std::tuple<int32_t, int32_t, Pass>;
  static Key key(const Action& a) { return {a.stage, a.microbatch, a.pass == Pass::kBI ? Pass::kB : a.pass}; }

  void push(size_t r, const Action& a) {
    rows_[r].queues[a.stage][queue_of(a.pass)].push_back(a);
    ++left_;
  }
  int32_t num_stages() const { return static_cast<int32_t>(given_.stage_rank.size()); }
  int32_t row_of(const Action& a) const {
    return given_.stage_rank[static_cast<size_t>(a.stage)][static_cast<size_t>(a.microbatch)];
  }

  // When a pass has what `of` gives it; nothing: that did not run yet.
  std::optional<double> after(const Action& a, const Action& of) const {
    const auto done = ended_.find(key(of));
    if (done == ended_.end()) return std::nullopt;
    return done->second + (row_of(a) == row_of(of) ? 0 : times_.message());
  }
  std::optional<double> ready(const Action& a) const {
    std::vector<Action> needs;
    const int32_t before = a.stage - 1, behind = a.stage + 1;
    if (a.pass == Pass::kF && before >= 0) needs.push_back({before, a.microbatch, Pass::kF});
    if (queue_of(a.pass) == kBackwards) {
      needs.push_back({a.stage, a.microbatch, Pass::kF});
      if (behind < num_stages()) needs.push_back({behind, a.microbatch, Pass::kB});
    }
    if (a.pass == Pass::kBW) needs.push_back({a.stage, a.microbatch, Pass::kB});
    double time = 0;
    for (const Action& need : needs) {
      const auto given = after(a, need);
      if (!given) return std::nullopt;
      time = std::max(time, *given);
    }
    return time;
  }

  // The longest chain of passes that begins with it.
  double tail(const Action& a) const {
    if (a.pass == Pass::kBW) return times_.of(a.stage, a.pass).alone();
    double time = 0;
    if (a.pass == Pass::kF)
      for (int32_t s = a.stage; s < num_stages(); ++s) time += times_.of(s, Pass::kF).alone() + times_.message();
    const int32_t from = a.pass == Pass::kF ? num_stages() - 1 : a.stage;
    for (int32_t s = from; s >= 0; --s) time += times_.of(s, Pass::kB).alone() + times_.message();
    return time;
  }
  bool more_urgent(const Action& a, const Action& b) const {
    if (options_.urgent == ListScheduleOptions::Urgent::kLongestPath && tail(a) != tail(b)) return tail(a) > tail(b);
    static constexpr std::array<int, kNumQueues> kRank = {1, 0, 2};
    const int x = kRank[queue_of(a.pass)], y = kRank[queue_of(b.pass)];
    if (x != y) return x < y;
    if (a.stage != b.stage && a.pass == Pass::kF) return a.stage > b.stage;
    return std::tie(a.microbatch, a.stage) < std::tie(b.microbatch, b.stage);
  }
  bool fits(const Row& row, size_t r, const Action& a) const { return a.pass != Pass::kF || row.in_flight < bound_[r]; }

  // Whether it is its turn to add to the gradients of its stage.
  static bool has_turn(const Row& row, const Action& a) { return row.turns.at(a.stage).front() == a.microbatch; }

  // The pass that the row can begin first; of several the most urgent one.
  std::optional<Choice> choose(size_t r, bool bounded) const {
    std::optional<Choice> best;
    for (const auto& [stage, queues] : rows_[r].queues)
      for (const auto& queue : queues) {
        if (queue.empty() || (bounded && !fits(rows_[r], r, queue.front()))) continue;
        const auto at = ready(queue.front());
        if (!at || (closes(queue.front().pass) && !has_turn(rows_[r], queue.front()))) continue;
        const double start = std::max(*at, rows_[r].free);
        if (!best || start < best->start || (start == best->start && more_urgent(queue.front(), best->action)))
          best = {r, start, queue.front()};
      }
    return best;
  }
  // A pass for the same slot: ready while the first one still runs, and not waiting for it.
  std::optional<Action> partner(const Choice& first) const {
    const Row& row = rows_[first.row];
    if (options_.overlap == ListScheduleOptions::Overlap::kNone || first.action.pass == Pass::kBW) return std::nullopt;
    const double until = first.start + kPatience * times_.of(first.action.stage, first.action.pass).alone();
    std::optional<Action> best;
    for (const auto& [stage, queues] : row.queues)
      for (const size_t q : {kForwards, kBackwards}) {
        const auto& queue = queues[q];
        const bool same = !queue.empty() && key(queue.front()) == key(first.action);
        if (queue.size() <= (same ? 1u : 0u)) continue;
        const Action& a = queue[same ? 1 : 0];
        if (options_.overlap == ListScheduleOptions::Overlap::kOpposite && q == queue_of(first.action.pass)) continue;
        const auto at = ready(a);
        if (!at || *at > until || !fits(row, first.row, a)) continue;
        if (a.pass == Pass::kB && !has_turn(row, a) && !(same && first.action.pass == Pass::kB)) continue;
        if (!best || more_urgent(a, *best)) best = a;
      }
    return best;
  }

  Slot take(const Choice& choice) {
    Row& row = rows_[choice.row];
    Slot slot = {choice.action};
    if (const auto second = partner(choice)) {
      slot.push_back(*second);
      // Both halves of a backward fill the slot.
      for (Action& a : slot)
        if (a.pass == Pass::kBI && has_turn(row, a)) a.pass = Pass::kB;
    }
    double compute = 0, end = choice.start;
    for (const Action& a : slot) {
      const PassTime time = times_.of(a.stage, a.pass);
      compute += time.compute;
      end = std::max({end, choice.start + compute, *ready(a) + time.alone()});
    }
    for (const Action& a : slot) {
      remove(row, a);
      row.in_flight += a.pass == Pass::kF ? 1 : closes(a.pass) ? -1 : 0;
      if (closes(a.pass)) row.turns.at(a.stage).pop_front();
      ended_[key(a)] = end;
    }
    row.free = end;
    return slot;
  }
  // Removes an action from the queues; of a whole backward both halves where it was queued as two.
  void remove(Row& row, const Action& a) {
    for (auto& queue : row.queues[a.stage])
      for (size_t k = queue.size(); k-- > 0;) {
        const bool of_it = queue[k].microbatch == a.microbatch &&
                           (queue[k].pass == a.pass || (a.pass == Pass::kB && queue[k].pass != Pass::kF));
        if (!of_it) continue;
        queue.erase(queue.begin() + static_cast<std::ptrdiff_t>(k));
        --left_;
      }
  }

  const ScheduleTable& given_;
  const PassTimes& times_;
  ListScheduleOptions options_;
  std::vector<int32_t> bound_;  // by row
  std::vector<Row> rows_;
  std::map<Key, double> ended_;  // by action; an input half counts as the backward that others wait for
  size_t left_ = 0;
};

}  // namespace

ScheduleTable list_schedule(const ScheduleTable& given, const PassTimes& times, const ListScheduleOptions& options) {
  return Scheduler(given, times, options).run();
}

std::vector<int32_t> most_in_flight(const ScheduleTable& table) {
  std::vector<int32_t> most;
  for (const auto& row : table.rows) {
    int32_t now = 0, peak = 0;
    for (const Slot& slot : row) {
      for (const Action& a : slot) now += a.pass == Pass::kF ? 1 : 0;
      peak = std::max(peak, now);
      for (const Action& a : slot) now -= closes(a.pass) ? 1 : 0;
    }
    most.push_back(peak);
  }
  return most;
}

}  // namespace piper::tune
