#include "tests/standin/nccl_order.h"

#include <algorithm>

namespace piper::standin {

namespace {

// The call of a member among the calls at which its rank is.
Call* at_head(const ncclComm* comm, const Key& key) {
  if (comm == nullptr || comm->owner == nullptr || comm->owner->queue.empty()) return nullptr;
  for (Call& o : comm->owner->queue.front()->calls)
    if (o.comm == comm && o.key == key) return &o;
  return nullptr;
}

// A rank waits in a call for one that is at other calls.
struct Edge {
  const Call* call = nullptr;
  const ncclComm* waits_for = nullptr;
};
std::vector<Edge> edges(const Rank& rank) {
  std::vector<Edge> found;
  if (rank.queue.empty()) return found;
  for (const Call& o : rank.queue.front()->calls) {
    if (o.matched) continue;
    for (const ncclComm* member : participants(o)) {
      if (member == nullptr || member == o.comm || member->owner == nullptr || member->over()) continue;
      if (!member->owner->queue.empty() && at_head(member, o.key) == nullptr) found.push_back({&o, member});
    }
  }
  return found;
}
bool find_cycle(const Rank* from, std::vector<std::pair<const Rank*, Edge>>& path, std::set<const Rank*>& seen) {
  for (const Edge& edge : edges(*from)) {
    path.emplace_back(from, edge);
    const Rank* next = edge.waits_for->owner;
    for (size_t i = 0; i < path.size(); ++i)
      if (path[i].first == next) {
        path.erase(path.begin(), path.begin() + static_cast<int64_t>(i));
        return true;
      }
    if (seen.insert(next).second && find_cycle(next, path, seen)) return true;
    path.pop_back();
  }
  return false;
}
}  // namespace

std::string member_of(const ncclComm& comm) {
  return "member " + std::to_string(comm.rank) + " of '" + comm.name + "'";
}

std::vector<ncclComm*> participants(const Call& o) {
  const std::vector<ncclComm*>& members = o.key.world->members;
  if (!is_message(o.kind)) return members;
  if (o.key.from == o.key.to) return {members[static_cast<size_t>(o.key.to)]};
  return {members[static_cast<size_t>(o.key.from)], members[static_cast<size_t>(o.key.to)]};
}

std::optional<std::vector<Call>> with_own_messages_joined(const std::vector<Call>& calls) {
  const auto to_itself = [](const Call& o) { return is_message(o.kind) && o.peer == o.comm->rank; };
  std::vector<Call> joined;
  std::vector<Call> receives;
  for (const Call& o : calls) (to_itself(o) && o.kind == Kind::kReceive ? receives : joined).push_back(o);
  for (Call& send : joined) {
    if (!to_itself(send)) continue;
    const auto receive =
        std::find_if(receives.begin(), receives.end(), [&](const Call& o) { return o.comm == send.comm; });
    if (receive == receives.end() || receive->count != send.count || receive->type != send.type ||
        receive->stream != send.stream)
      return std::nullopt;
    send.recv = receive->recv;
    send.written = receive->written;
    receives.erase(receive);
  }
  if (!receives.empty()) return std::nullopt;
  return joined;
}

void advance(const std::set<Rank*>& ranks) {
  for (bool progress = true; progress;) {
    progress = false;
    for (Rank* rank : ranks) {
      if (rank->queue.empty()) continue;
      std::vector<Call>& head = rank->queue.front()->calls;
      for (Call& o : head) {
        if (o.matched) continue;
        std::vector<Call*> all;
        for (const ncclComm* member : participants(o)) all.push_back(at_head(member, o.key));
        if (std::find(all.begin(), all.end(), nullptr) != all.end()) continue;
        for (Call* each : all) each->matched = true;
        progress = true;
      }
      if (std::any_of(head.begin(), head.end(), [](const Call& o) { return !o.matched; })) continue;
      rank->queue.pop_front();
      progress = true;
    }
  }
}

std::optional<Deadlock> find_deadlock(const std::set<Rank*>& ranks) {
  std::set<const Rank*> seen;
  for (const Rank* rank : ranks) {
    std::vector<std::pair<const Rank*, Edge>> cycle;
    if (!seen.insert(rank).second || !find_cycle(rank, cycle, seen)) continue;
    std::rotate(cycle.begin(),
                std::min_element(
                    cycle.begin(), cycle.end(),
                    [](const auto& a, const auto& b) { return a.second.call->comm->rank < b.second.call->comm->rank; }),
                cycle.end());
    Deadlock found{"deadlock: ", {}};
    for (size_t i = 0; i < cycle.size(); ++i) {
      const Call& o = *cycle[i].second.call;
      found.text += (i == 0 ? "" : "; ") + member_of(*o.comm) + " is at " + text_of(o) + " and waits for member " +
                    std::to_string(cycle[i].second.waits_for->rank);
    }
    for (const auto& [at, edge] : cycle) found.worlds.push_back(edge.call->key.world);
    return found;
  }
  return std::nullopt;
}

}  // namespace piper::standin
