#include "schemas/verify/deadlock.h"

#include <algorithm>
#include <limits>

#include "schemas/verify/describe.h"

namespace piper::verify {
namespace {

using namespace plan;

// Instructions that follow one another: a stream of a rank, or a rank.
struct Chain {
  int32_t plan = -1;
  std::vector<int32_t> instructions;
  size_t next = 0;
  bool started = false;  // the instruction at `next` has started and cannot end yet
};

class Player {
 public:
  Player(const Bundle& bundle, const Matching& matching, Chaining chaining)
      : bundle_(bundle), matching_(matching), chaining_(chaining), missing_(matching.first.size() - 1) {
    for (size_t t = 0; t < missing_.size(); ++t) missing_[t] = static_cast<int32_t>(matching.first[t + 1] - matching.first[t]);
    for (size_t p = 0; p < bundle.ranks.size(); ++p) add_rank(static_cast<int32_t>(p));
  }

  Status play() {
    std::vector<int32_t> ready(chains_.size());
    for (size_t c = 0; c < chains_.size(); ++c) ready[chains_.size() - 1 - c] = static_cast<int32_t>(c);
    while (!ready.empty()) {
      const int32_t chain = ready.back();
      ready.pop_back();
      run(chain, ready);
    }
    for (const auto& chain : chains_)
      if (chain.next < chain.instructions.size()) return refute();
    return {};
  }

 private:
  void add_rank(int32_t p) {
    const auto& plan = bundle_.ranks[static_cast<size_t>(p)];
    const auto base = chains_.size();
    const size_t count = chaining_ == Chaining::kIssueOrder ? 1 : plan.streams.size();
    for (size_t c = 0; c < count; ++c) chains_.push_back({p, {}, 0, false});
    chain_of_.emplace_back(plan.instructions.size());
    record_of_.emplace_back(plan.events.size(), -1);
    recorded_.emplace_back(plan.events.size());
    waiting_.emplace_back(plan.events.size());
    for (size_t i = 0; i < plan.instructions.size(); ++i) {
      const auto& instruction = plan.instructions[i];
      const size_t chain = base + (chaining_ == Chaining::kIssueOrder ? 0 : static_cast<size_t>(instruction.stream));
      chain_of_.back()[i] = static_cast<int32_t>(chain);
      chains_[chain].instructions.push_back(static_cast<int32_t>(i));
      if (const auto* record = std::get_if<Record>(&instruction.action))
        record_of_.back()[static_cast<size_t>(record->event)] = static_cast<int32_t>(i);
    }
  }

  const Instruction& head(const Chain& chain) const {
    return bundle_.ranks[static_cast<size_t>(chain.plan)].instructions[static_cast<size_t>(chain.instructions[chain.next])];
  }
  int32_t transfer(const Chain& chain) const {
    return matching_.transfer_of[static_cast<size_t>(chain.plan)][static_cast<size_t>(chain.instructions[chain.next])];
  }

  // Goes on until the chain's end or an instruction that cannot end yet.
  void run(int32_t index, std::vector<int32_t>& ready) {
    Chain& chain = chains_[static_cast<size_t>(index)];
    const auto p = static_cast<size_t>(chain.plan);
    while (chain.next < chain.instructions.size()) {
      const auto& action = head(chain).action;
      if (const auto* wait = std::get_if<Wait>(&action); wait && !recorded_[p][static_cast<size_t>(wait->event)]) {
        if (!chain.started) waiting_[p][static_cast<size_t>(wait->event)].push_back(index);
        chain.started = true;
        return;
      }
      if (const auto* record = std::get_if<Record>(&action)) {
        const auto event = static_cast<size_t>(record->event);
        recorded_[p][event] = 1;
        ready.insert(ready.end(), waiting_[p][event].begin(), waiting_[p][event].end());
      }
      if (const int32_t t = transfer(chain); t >= 0) {
        const auto id = static_cast<size_t>(t);
        if (!chain.started) --missing_[id];
        const bool first_time = !chain.started;
        chain.started = true;
        if (missing_[id] > 0) return;
        if (first_time) wake(id, index, ready);
      }
      chain.started = false;
      ++chain.next;
    }
  }
  void wake(size_t transfer, int32_t self, std::vector<int32_t>& ready) const {
    for (auto k = matching_.first[transfer]; k < matching_.first[transfer + 1]; ++k) {
      const auto& other = matching_.participants[static_cast<size_t>(k)];
      const int32_t chain = chain_of_[static_cast<size_t>(other.plan)][static_cast<size_t>(other.instruction)];
      if (chain != self) ready.push_back(chain);
    }
  }

  // What the stuck head of a chain needs that has not happened.
  struct Need { int32_t plan = -1, instruction = -1; };
  std::vector<Need> needs(const Chain& chain) const {
    std::vector<Need> result;
    const auto& action = head(chain).action;
    if (const auto* wait = std::get_if<Wait>(&action)) {
      result.push_back({chain.plan, record_of_[static_cast<size_t>(chain.plan)][static_cast<size_t>(wait->event)]});
      return result;
    }
    const int32_t t = transfer(chain);
    if (t < 0) return result;
    for (auto k = matching_.first[static_cast<size_t>(t)]; k < matching_.first[static_cast<size_t>(t) + 1]; ++k) {
      const auto& other = matching_.participants[static_cast<size_t>(k)];
      const auto& stands = chains_[static_cast<size_t>(chain_of_[static_cast<size_t>(other.plan)][static_cast<size_t>(other.instruction)])];
      const bool there = stands.next < stands.instructions.size() && stands.instructions[stands.next] == other.instruction && stands.started;
      const bool self = other.plan == chain.plan && other.instruction == chain.instructions[chain.next];
      if (!there && !self) result.push_back({other.plan, other.instruction});
    }
    return result;
  }

  struct Step { int32_t chain = -1; Need need; };

  // The shortest way from `start` back to itself, breadth first; empty where there is none.
  std::vector<Step> cycle_from(int32_t start) const {
    std::vector<Step> came(chains_.size());  // chain -> the chain before it, and what that one needed
    std::vector<int32_t> queue = {start};
    for (size_t at = 0; at < queue.size(); ++at) {
      const int32_t chain = queue[at];
      for (const auto& need : needs(chains_[static_cast<size_t>(chain)])) {
        if (need.instruction < 0) continue;
        const int32_t next = chain_of_[static_cast<size_t>(need.plan)][static_cast<size_t>(need.instruction)];
        if (next == start) {
          std::vector<Step> cycle = {{chain, need}};
          for (int32_t c = chain; c != start; c = came[static_cast<size_t>(c)].chain) cycle.push_back(came[static_cast<size_t>(c)]);
          std::reverse(cycle.begin(), cycle.end());
          return cycle;
        }
        if (came[static_cast<size_t>(next)].chain >= 0) continue;
        came[static_cast<size_t>(next)] = {chain, need};
        queue.push_back(next);
      }
    }
    return {};
  }

  std::string name(int32_t plan, int32_t instruction) const {
    return describe_instruction(bundle_, bundle_.ranks[static_cast<size_t>(plan)], static_cast<size_t>(instruction));
  }

  Status refute() const {
    constexpr int kMaxStarts = 256;  // bounds the search; any cycle proves the deadlock
    std::vector<Step> shortest;
    int starts = 0;
    for (size_t c = 0; c < chains_.size() && starts < kMaxStarts; ++c) {
      if (chains_[c].next >= chains_[c].instructions.size()) continue;
      ++starts;
      auto cycle = cycle_from(static_cast<int32_t>(c));
      if (!cycle.empty() && (shortest.empty() || cycle.size() < shortest.size())) shortest = std::move(cycle);
    }
    std::string story = chaining_ == Chaining::kStreams
                            ? "rule 4: deadlock, even with every stream running on its own:"
                            : "rule 4: deadlock when each rank issues its instructions in order:";
    for (const auto& step : shortest) {
      const auto& chain = chains_[static_cast<size_t>(step.chain)];
      story += "\n  " + name(chain.plan, chain.instructions[chain.next]) + " needs\n    " + name(step.need.plan, step.need.instruction) +
               ", which comes after";
    }
    if (!shortest.empty()) {
      const auto& chain = chains_[static_cast<size_t>(shortest.front().chain)];
      story += "\n  " + name(chain.plan, chain.instructions[chain.next]);
    }
    return Status::failure("P0632", story);
  }

  const Bundle& bundle_;
  const Matching& matching_;
  Chaining chaining_;
  std::vector<int32_t> missing_;  // per transfer: participants that have not started
  std::vector<Chain> chains_;
  std::vector<std::vector<int32_t>> chain_of_, record_of_;           // [plan][instruction], [plan][event]
  std::vector<std::vector<char>> recorded_;                          // [plan][event]
  std::vector<std::vector<std::vector<int32_t>>> waiting_;           // [plan][event]: chains
};

}  // namespace

Status check_deadlock(const Bundle& bundle, const Matching& matching, Chaining chaining) {
  return Player(bundle, matching, chaining).play();
}

}  // namespace piper::verify
