#include "compiler/analysis/alternate.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace piper::analysis {
namespace {

class Alternation {
 public:
  Alternation(const DataPaths& paths, const ir::Dag& dag, const std::vector<std::vector<ir::NodeId>>& members)
      : dag_(dag) {
    for (const std::vector<ir::NodeId>& nodes : members) add_member(paths, nodes);
    for (const Member& m : members_)
      for (const auto* nodes : {&m.chain, &m.weights})
        for (ir::NodeId n : *nodes) position_[n.index] = kNotYet;
    for (const auto& [n, unused] : position_)
      for (uint32_t s : paths.next[n]) {
        if (position_.count(s)) needs_[s].push_back(n);
        if (is_compute(dag, s)) continue;
        for (uint32_t t : paths.next[s])
          if (position_.count(t)) {
            needs_[t].push_back(n);
            sender_[t] = n;
          }
      }
  }

  std::vector<ir::NodeId> alternating() {
    for (;;) {
      Member* next = nullptr;
      Member* first_sent = nullptr;
      for (Member& m : members_) {
        if (m.next == m.chain.size()) continue;
        if (sent_at(m) == kNothingSent) {
          if (next == nullptr || m.priority < next->priority) next = &m;
        } else if (first_sent == nullptr || sent_at(m) < sent_at(*first_sent)) {
          first_sent = &m;
        }
      }
      if (next != nullptr) {
        append(next->chain[next->next++]);
      } else if (first_sent != nullptr) {
        (void)append_weights();
        arrived_.insert(first_sent->chain[first_sent->next].index);
      } else if (!append_weights()) {
        return std::move(sequence_);
      }
    }
  }
  std::vector<ir::NodeId> in_sequence() {
    for (Member& m : members_)
      for (const auto* nodes : {&m.chain, &m.weights})
        for (ir::NodeId n : *nodes) append(n);
    return std::move(sequence_);
  }

 private:
  static constexpr size_t kNotYet = ~size_t{0}, kNothingSent = ~size_t{0};
  struct Member {
    std::vector<ir::NodeId> chain, weights;  // weight passes feed nothing of the slot
    size_t next = 0, next_weight = 0;
    std::tuple<bool, int32_t> priority;  // forward first, then the lower microbatch
  };

  const ir::ComputeNode& compute(ir::NodeId n) const { return std::get<ir::ComputeNode>(dag_.nodes[n.index].payload); }

  void add_member(const DataPaths& paths, const std::vector<ir::NodeId>& nodes) {
    Member m;
    for (ir::NodeId n : nodes)
      if (is_compute(dag_, n.index))
        (compute(n).phase == ir::Phase::kBackwardWeight ? m.weights : m.chain).push_back(n);
    for (auto* list : {&m.chain, &m.weights})
      std::sort(list->begin(), list->end(), [&](ir::NodeId a, ir::NodeId b) {
        return std::make_tuple(paths.depth[a.index], a.index) < std::make_tuple(paths.depth[b.index], b.index);
      });
    if (m.chain.empty() && m.weights.empty()) return;
    const ir::ComputeNode& first = compute(m.chain.empty() ? m.weights[0] : m.chain[0]);
    m.priority = {first.phase != ir::Phase::kForward, first.microbatch};
    members_.push_back(std::move(m));
  }

  // Where in the sequence is the sender of the message that the member's next chunk waits for.
  size_t sent_at(const Member& m) const {
    const uint32_t n = m.chain[m.next].index;
    const auto from = sender_.find(n);
    if (from == sender_.end() || arrived_.count(n)) return kNothingSent;
    return position_.at(from->second);
  }

  void append(ir::NodeId n) {
    position_[n.index] = sequence_.size();
    sequence_.push_back(n);
  }

  bool append_weights() {
    for (Member& m : members_) {
      if (m.next_weight == m.weights.size()) continue;
      const ir::NodeId n = m.weights[m.next_weight];
      const std::vector<uint32_t>& needs = needs_[n.index];
      if (std::any_of(needs.begin(), needs.end(), [&](uint32_t before) { return position_.at(before) == kNotYet; }))
        continue;
      ++m.next_weight;
      append(n);
      return true;
    }
    return false;
  }

  const ir::Dag& dag_;
  std::vector<Member> members_;
  std::map<uint32_t, size_t> position_;              // in the sequence
  std::map<uint32_t, std::vector<uint32_t>> needs_;  // computes of the slot that come first
  std::map<uint32_t, uint32_t> sender_;              // compute -> the compute of this slot whose message it needs
  std::set<uint32_t> arrived_;                       // computes whose messages have had time to arrive
  std::vector<ir::NodeId> sequence_;
};

}  // namespace

std::vector<ir::NodeId> alternate(const DataPaths& paths, const ir::Dag& dag,
                                  const std::vector<std::vector<ir::NodeId>>& members) {
  return Alternation(paths, dag, members).alternating();
}

std::vector<ir::NodeId> one_after_the_other(const DataPaths& paths, const ir::Dag& dag,
                                            const std::vector<std::vector<ir::NodeId>>& members) {
  return Alternation(paths, dag, members).in_sequence();
}

}  // namespace piper::analysis
