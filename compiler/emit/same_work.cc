#include "compiler/emit/same_work.h"

#include <algorithm>
#include <unordered_map>

namespace piper::emit {
namespace {

class Facts {
 public:
  Facts(const EmitShared& shared, int32_t rank) : s_(shared), module_(*shared.request.module), rank_(rank) {}

  RankWork collect() {
    for (uint32_t group = 0; group < module_.distribution.groups.size(); ++group)
      put(s_.connections.position(ir::GroupId{group}, rank_) >= 0);
    for (uint32_t p = 0; p < s_.owner.size(); ++p)
      if (s_.unread[p]) put(s_.owner[p] == rank_);  // who keeps it has a place for it
    for (ir::NodeId id : s_.nodes_of_rank[rank_]) {
      const ir::Node& node = module_.dag.nodes[id.index];
      std::visit([&](const auto& n) { visit(node, n); }, node.payload);
    }
    return std::move(work_);
  }

 private:
  void put(uint32_t fact) { work_.facts.push_back(fact); }
  void visit(const ir::Node&, const ir::ComputeNode&) {}
  void visit(const ir::Node&, const ir::StepNode& n) {
    if (n.work != ir::StepWork::kNormPart) return;
    for (uint32_t p = 0; p < module_.state.parameter_uses.size(); ++p)
      if (s_.primary(p, rank_).valid()) put(s_.owns(p, rank_));
  }
  void visit(const ir::Node& node, const ir::TransferNode& n) {
    const std::vector<Message> messages = s_.connections.messages(node, n, rank_);
    put(static_cast<uint32_t>(messages.size()));
    for (const Message& message : messages) {
      put(static_cast<uint32_t>(message.part));
      if (message.from == message.to) {
        put(0);
        continue;
      }
      const bool sends = message.from == rank_;
      const int32_t peer = sends ? message.to : message.from;
      const uint32_t name = s_.connections.channel(node.stream, message.from, message.to);
      put(sends ? 1 : 2);
      put(name);
      put(meet(peer));
      if (std::none_of(work_.channels.begin(), work_.channels.end(),
                       [&](const auto& known) { return known.first == name; }))
        work_.channels.emplace_back(name, peer);
    }
  }
  void visit(const ir::Node& node, const ir::AllReduceNode& n) {
    team(node.stream, n.what == ir::Reduced::kBucket
                          ? module_.state.team_of(module_.state.buckets[n.bucket.index], rank_)
                          : module_.distribution.groups[node.group.index].ranks);
  }
  void visit(const ir::Node& node, const ir::ReduceScatterNode& n) {
    part(node.stream, module_.state.buckets[n.bucket.index]);
  }
  void visit(const ir::Node& node, const ir::AllGatherNode& n) {
    part(node.stream, module_.state.buckets[n.bucket.index]);
  }
  void visit(const ir::Node&, const ir::UpdateNode& n) {
    const ir::Bucket& bucket = module_.state.buckets[n.bucket.index];
    if (bucket.sharded != ir::Sharded::kNothing) position(module_.state.team_of(bucket, rank_));
  }
  void visit(const ir::Node& node, const ir::ExchangeNode& n) {
    team(node.stream, module_.distribution.expert_group_of(module_.chunks()[n.at.chunk.index].shard, rank_));
  }

  void part(uint32_t stream, const ir::Bucket& bucket) {
    const std::vector<int32_t>& members = module_.state.team_of(bucket, rank_);
    team(stream, members);
    position(members);
  }
  void position(const std::vector<int32_t>& members) {
    put(static_cast<uint32_t>(std::find(members.begin(), members.end(), rank_) - members.begin()));
    put(static_cast<uint32_t>(members.size()));
  }
  void team(uint32_t stream, const std::vector<int32_t>& members) {
    const uint32_t name = s_.connections.communicator(stream, members);
    put(name);
    put(static_cast<uint32_t>(members.size()));
    if (std::none_of(work_.communicators.begin(), work_.communicators.end(),
                     [&](const auto& known) { return known.first == name; }))
      work_.communicators.emplace_back(name, &members);
  }
  uint32_t meet(int32_t peer) {
    const auto known = static_cast<size_t>(std::find(met_.begin(), met_.end(), peer) - met_.begin());
    if (known == met_.size()) met_.push_back(peer);
    return static_cast<uint32_t>(known);
  }

  const EmitShared& s_;
  const ir::Module& module_;
  int32_t rank_;
  RankWork work_;
  std::vector<int32_t> met_;
};

}  // namespace

RankWork work_of(const EmitShared& shared, int32_t rank) { return Facts(shared, rank).collect(); }

std::vector<int32_t> first_with_same_work(const EmitShared& shared, const std::vector<RankWork>& work) {
  std::vector<int32_t> first(work.size());
  std::unordered_map<size_t, std::vector<int32_t>> by_hash;
  for (size_t rank = 0; rank < work.size(); ++rank) {
    const std::vector<ir::NodeId>& nodes = shared.nodes_of_rank[rank];
    size_t hash = nodes.size();
    for (uint32_t fact : work[rank].facts) hash = hash * 0x9e3779b97f4a7c15u + fact;
    std::vector<int32_t>& candidates = by_hash[hash];
    const auto like = std::find_if(candidates.begin(), candidates.end(), [&](int32_t other) {
      return work[other].facts == work[rank].facts && shared.nodes_of_rank[other] == nodes;
    });
    first[rank] = like == candidates.end() ? static_cast<int32_t>(rank) : *like;
    if (like == candidates.end()) candidates.push_back(static_cast<int32_t>(rank));
  }
  return first;
}

}  // namespace piper::emit
