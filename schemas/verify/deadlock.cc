#include "schemas/verify/deadlock.h"

#include <algorithm>

#include "schemas/plan/actions.h"
#include "schemas/verify/describe.h"
#include "schemas/verify/rules.h"
#include "schemas/verify/wait_cycle.h"

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
  Player(const Bundle& bundle, const Matching& matching, Level level)
      : bundle_(bundle), matching_(matching), level_(level), missing_(matching.first.size() - 1) {
    for (size_t t = 0; t < missing_.size(); ++t)
      missing_[t] = static_cast<int32_t>(matching.first[t + 1] - matching.first[t]);
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
  // All communication of a rank, and how much of it has ended (D1).
  struct Lane {
    std::vector<int32_t> instructions;
    size_t next = 0;
  };

  void add_rank(int32_t p) {
    const auto& plan = bundle_.ranks[static_cast<size_t>(p)];
    const auto base = chains_.size();
    const size_t count = level_ == Level::kIssueOrder ? 1 : plan.streams.size();
    for (size_t c = 0; c < count; ++c) chains_.push_back({p, {}, 0, false});
    chain_of_.emplace_back(plan.instructions.size());
    record_of_.emplace_back(plan.events.size(), -1);
    recorded_.emplace_back(plan.events.size());
    waiting_.emplace_back(plan.events.size());
    lanes_.emplace_back();
    for (size_t i = 0; i < plan.instructions.size(); ++i) {
      const auto& instruction = plan.instructions[i];
      const size_t chain = base + (level_ == Level::kIssueOrder ? 0 : static_cast<size_t>(instruction.stream));
      chain_of_.back()[i] = static_cast<int32_t>(chain);
      chains_[chain].instructions.push_back(static_cast<int32_t>(i));
      if (const int32_t event = recorded_event(instruction.action); event >= 0)
        record_of_.back()[static_cast<size_t>(event)] = static_cast<int32_t>(i);
      if (level_ == Level::kCommunication && matching_.transfer_of[static_cast<size_t>(p)][i] >= 0)
        lanes_.back().instructions.push_back(static_cast<int32_t>(i));
    }
  }

  bool at_end(const Chain& chain) const { return chain.next >= chain.instructions.size(); }
  int32_t head(const Chain& chain) const { return chain.instructions[chain.next]; }
  const Action& action(const Chain& chain) const {
    return bundle_.ranks[static_cast<size_t>(chain.plan)].instructions[static_cast<size_t>(head(chain))].action;
  }
  int32_t transfer(const Chain& chain) const {
    return matching_.transfer_of[static_cast<size_t>(chain.plan)][static_cast<size_t>(head(chain))];
  }
  const Chain& chain_at(int32_t plan, int32_t instruction) const {
    return chains_[static_cast<size_t>(chain_of_[static_cast<size_t>(plan)][static_cast<size_t>(instruction)])];
  }
  // The communication that must end before the head of `chain`, a communication, may start; -1: none.
  int32_t lane_before(const Chain& chain) const {
    if (level_ != Level::kCommunication) return -1;
    const auto& lane = lanes_[static_cast<size_t>(chain.plan)];
    const int32_t first = lane.instructions[lane.next];
    return first == head(chain) ? -1 : first;
  }

  // Goes on until the chain's end or an instruction that cannot end yet.
  void run(int32_t index, std::vector<int32_t>& ready) {
    Chain& chain = chains_[static_cast<size_t>(index)];
    const auto p = static_cast<size_t>(chain.plan);
    for (; !at_end(chain); chain.started = false, ++chain.next) {
      const Action& now = action(chain);
      if (const int32_t event = awaited_event(now); event >= 0 && !recorded_[p][static_cast<size_t>(event)]) {
        if (!chain.started) waiting_[p][static_cast<size_t>(event)].push_back(index);
        chain.started = true;
        return;
      }
      if (const int32_t recorded = recorded_event(now); recorded >= 0) {
        const auto event = static_cast<size_t>(recorded);
        recorded_[p][event] = 1;
        ready.insert(ready.end(), waiting_[p][event].begin(), waiting_[p][event].end());
      }
      const int32_t t = transfer(chain);
      if (t < 0) continue;
      if (!chain.started) {
        if (lane_before(chain) >= 0) return;
        chain.started = true;
        if (--missing_[static_cast<size_t>(t)] == 0) wake(static_cast<size_t>(t), index, ready);
      }
      if (missing_[static_cast<size_t>(t)] > 0) return;
      if (level_ != Level::kCommunication) continue;
      auto& lane = lanes_[p];
      if (++lane.next < lane.instructions.size())
        ready.push_back(chain_of_[p][static_cast<size_t>(lane.instructions[lane.next])]);
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
  struct Need {
    int32_t plan = -1, instruction = -1;
    const char* what = "";
  };
  std::vector<Need> needs(const Chain& chain) const {
    if (const int32_t event = awaited_event(action(chain)); event >= 0)
      return {
          {chain.plan, record_of_[static_cast<size_t>(chain.plan)][static_cast<size_t>(event)], "which records it"}};
    const int32_t t = transfer(chain);
    if (t < 0) return {};
    if (!chain.started) return {{chain.plan, lane_before(chain), "communication issued before it"}};
    std::vector<Need> result;
    for (auto k = matching_.first[static_cast<size_t>(t)]; k < matching_.first[static_cast<size_t>(t) + 1]; ++k) {
      const auto& other = matching_.participants[static_cast<size_t>(k)];
      const auto& stands = chain_at(other.plan, other.instruction);
      if (!stands.started || head(stands) != other.instruction)
        result.push_back({other.plan, other.instruction, "its other end"});
    }
    return result;
  }

  std::string name(int32_t plan, int32_t instruction) const {
    return describe_instruction(bundle_, bundle_.ranks[static_cast<size_t>(plan)], static_cast<size_t>(instruction));
  }

  Status refute() const {
    // A chain waits for the chains that hold what its head needs.
    WaitGraph graph(chains_.size());
    for (size_t c = 0; c < chains_.size(); ++c) {
      if (at_end(chains_[c])) continue;
      for (const auto& need : needs(chains_[c]))
        graph[c].push_back(chain_of_[static_cast<size_t>(need.plan)][static_cast<size_t>(need.instruction)]);
    }
    const auto cycle = shortest_cycle(graph);
    std::string story = level_ == Level::kStreams ? "deadlock, even with every stream running on its own (level D0):"
                        : level_ == Level::kCommunication
                            ? "deadlock when each rank communicates in issue order (level D1; "
                              "the streams alone, D0, have none):"
                            : "deadlock when each rank issues its instructions in order (level "
                              "D2; with communication alone in issue order, D1, there is none):";
    for (size_t k = 0; k < cycle.size(); ++k) {
      const auto& chain = chains_[static_cast<size_t>(cycle[k])];
      const int32_t next = cycle[(k + 1) % cycle.size()];
      if (k == 0) story += "\n  " + name(chain.plan, head(chain));
      for (const auto& need : needs(chain)) {
        if (chain_of_[static_cast<size_t>(need.plan)][static_cast<size_t>(need.instruction)] != next) continue;
        story += ", which waits for\n  " + name(need.plan, need.instruction) + ", " + need.what;
        const auto& stands = chains_[static_cast<size_t>(next)];
        if (head(stands) == need.instruction) break;
        story += ", which waits for\n  " + name(stands.plan, head(stands)) +
                 (level_ == Level::kIssueOrder ? ", issued before it" : ", before it on its stream");
        break;
      }
    }
    return violates(Rule::kDeadlock, story);
  }

  const Bundle& bundle_;
  const Matching& matching_;
  Level level_;
  std::vector<int32_t> missing_;  // per transfer: participants that have not started
  std::vector<Chain> chains_;
  std::vector<Lane> lanes_;                                 // [plan]
  std::vector<std::vector<int32_t>> chain_of_, record_of_;  // [plan][instruction], [plan][event]
  std::vector<std::vector<char>> recorded_;                 // [plan][event]
  std::vector<std::vector<std::vector<int32_t>>> waiting_;  // [plan][event]: chains
};

}  // namespace

Status check_deadlock(const Bundle& bundle, const Matching& matching, Level level) {
  return Player(bundle, matching, level).play();
}

}  // namespace piper::verify
