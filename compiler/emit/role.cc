#include "compiler/emit/role.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "schemas/base/parallel.h"

namespace piper::emit {
namespace {

// [rank] -> the nodes that it takes part in.
std::vector<std::vector<ir::NodeId>> nodes_of_ranks(const ir::Module& module) {
  std::vector<std::vector<ir::NodeId>> nodes(module.distribution.world_size);
  for (ir::NodeId id : module.dag.order) {
    const ir::Node& node = module.dag.nodes[id.index];
    const std::vector<int32_t>& ranks = module.distribution.ranks(node.group);
    for (int32_t rank : ranks) nodes[rank].push_back(id);
    if (const auto* message = std::get_if<ir::TransferNode>(&node.payload))
      for (int32_t rank : module.distribution.ranks(message->to))
        if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) nodes[rank].push_back(id);
  }
  return nodes;
}

// [teams] whether members keep parts by their position.
std::vector<bool> teams_with_parts(const ir::Module& module) {
  std::vector<bool> parts(module.distribution.teams.size(), false);
  for (const ir::Bucket& bucket : module.state.buckets)
    if (bucket.moments == ir::Kept::kPart) parts[bucket.teams.index] = true;
  return parts;
}

// Makes the role of one rank, and what binds it.
class RoleOfRank {
 public:
  RoleOfRank(const ir::Module& module, const Connections& connections, const std::vector<int32_t>& decay_group,
             const std::vector<bool>& with_parts, Role& role, Binding& binding)
      : module_(module),
        connections_(connections),
        decay_group_(decay_group),
        with_parts_(with_parts),
        role_(role),
        binding_(binding) {}

  void make() {
    const int32_t rank = binding_.rank;
    for (size_t group = 0; group < module_.distribution.groups.size(); ++group)
      role_.member.push_back(connections_.position(ir::GroupId(group), rank) >= 0);
    const ir::StateLayout& state = module_.state;
    for (uint32_t p = 0; p < state.unread.size(); ++p)
      if (state.unread[p] && state.parameter_owner[p] == rank) role_.keeps_unread.push_back(p);
    role_.communicators.assign(role_.nodes.size(), 0);
    for (size_t i = 0; i < role_.nodes.size(); ++i) {
      role_.first_message.push_back(static_cast<uint32_t>(role_.messages.size()));
      role_.first_update.push_back(static_cast<uint32_t>(role_.updates.size()));
      const ir::Node& node = module_.dag.nodes[role_.nodes[i].index];
      if (const auto* update = std::get_if<ir::UpdateNode>(&node.payload)) add_updates(update->bucket);
      if (const auto* transfer = std::get_if<ir::TransferNode>(&node.payload)) add_messages(node, *transfer);
      if (const auto* collective = std::get_if<ir::CollectiveNode>(&node.payload))
        role_.communicators[i] = join(node.stream, collective->teams);
      if (const auto* step = std::get_if<ir::StepNode>(&node.payload)) {
        if (const auto* combine = std::get_if<ir::CombineUses>(&step->work))
          for (ir::AccumulatorId use : module_.state.parameter_uses[combine->parameter]) takes_use(use);
        if (role_.measures.empty() && (std::holds_alternative<ir::MeasureGradients>(step->work) ||
                                       std::holds_alternative<ir::CheckGradients>(step->work)))
          measure();
      }
    }
    role_.first_message.push_back(static_cast<uint32_t>(role_.messages.size()));
    role_.first_update.push_back(static_cast<uint32_t>(role_.updates.size()));
    // What is counted is cut at other places for each position.
    for (size_t t = 0; t < with_parts_.size(); ++t)
      role_.position.push_back(with_parts_[t] && role_.counts_parts ? connections_.place(ir::TeamsId(t), rank).position
                                                                    : -1);
  }

 private:
  void measure() {
    for (uint32_t p = 0; p < module_.state.parameter_uses.size(); ++p)
      if (const ir::AccumulatorId use = role_.primary(module_.state, p);
          use.valid() && module_.state.owns(module_.distribution, use, binding_.rank))
        role_.measures.push_back(p);
    role_.counts_parts = role_.counts_parts || !role_.measures.empty();
  }

  // Gradients of one use of a tied parameter, which are sent and added in the parts that members sum.
  void takes_use(ir::AccumulatorId use) {
    const ir::Bucket& bucket = module_.state.bucket_of(use);
    if (bucket.moments == ir::Kept::kPart && bucket.summed() == ir::Kept::kWhole) role_.counts_parts = true;
  }

  // The matrices of the bucket of which this device has the weights and the part.
  void add_matrices(const ir::Bucket& bucket, ir::Stretch here) {
    for (ir::AccumulatorId use : bucket.accumulators) {
      const ir::Accumulator& a = module_.state.accumulators[use.index];
      if (role_.primary(module_.state, a.parameter) != use || a.bytes == 0) continue;
      if (a.offset < here.begin || a.offset >= here.end) continue;
      const int64_t begin = a.offset - here.begin;
      const int64_t columns = module_.graph().type(module_.graph().parameters()[a.parameter].value).shape[1];
      role_.updates.push_back({decay_group_[a.parameter], {begin, begin + a.bytes}, columns});
    }
  }

  // Consecutive parameters of one decay group whose weights are in this bucket become one update, cut to the part
  // that this device updates.
  void add_updates(ir::BucketId id) {
    const ir::Bucket& bucket = module_.state.buckets[id.index];
    const ir::Stretch here = bucket.kept(bucket.moments, connections_.place(bucket.teams, binding_.rank).position);
    if (bucket.matrices) return add_matrices(bucket, here);
    // A parameter that several stages use has its weights in the bucket of the first use.
    const auto has_weights = [&](ir::AccumulatorId use) {
      return role_.primary(module_.state, module_.state.accumulators[use.index].parameter) == use;
    };
    for (size_t i = 0; i < bucket.accumulators.size();) {
      const ir::Accumulator& first = module_.state.accumulators[bucket.accumulators[i].index];
      if (!has_weights(bucket.accumulators[i])) {
        ++i;
        continue;
      }
      const int32_t group = decay_group_[first.parameter];
      ir::Stretch updated{first.offset, first.offset};
      for (; i < bucket.accumulators.size() && has_weights(bucket.accumulators[i]); ++i) {
        const ir::Accumulator& a = module_.state.accumulators[bucket.accumulators[i].index];
        if (decay_group_[a.parameter] != group) break;
        updated.end = a.offset + a.bytes;
      }
      // What fills the last part up is updated, too: zeros by zeros, so that all members do the same.
      if (bucket.moments == ir::Kept::kPart && i == bucket.accumulators.size()) updated.end = bucket.bytes;
      updated = {std::max(updated.begin, here.begin), std::min(updated.end, here.end)};
      if (updated.begin < updated.end)
        role_.updates.push_back({group, {updated.begin - here.begin, updated.end - here.begin}, 0});
    }
  }

  void add_messages(const ir::Node& node, const ir::TransferNode& n) {
    const auto* use = std::get_if<ir::UseOperand>(&n.what);
    if (use != nullptr) takes_use(use->use);
    for (const Message& message : connections_.messages(node, n, binding_.rank)) {
      // A member of two receiving groups gets a gradient once.
      if (use != nullptr && !received_.emplace(use->use, message.to).second) continue;
      if (message.from == message.to) {
        role_.messages.push_back({RoleMessage::Way::kStays, 0, message.part});
        continue;
      }
      const bool sends = message.from == binding_.rank;
      const uint32_t channel = connections_.channel(node.stream, message.from, message.to);
      role_.messages.push_back({sends ? RoleMessage::Way::kSends : RoleMessage::Way::kReceives, channel, message.part});
      bind(binding_.peers, channel, sends ? message.to : message.from);
    }
  }

  uint32_t join(uint32_t stream, ir::TeamsId teams) {
    const uint32_t communicator = connections_.communicator(stream, teams, binding_.rank);
    bind(binding_.teams, communicator, &connections_.team(teams, binding_.rank));
    return communicator;
  }

  template <class T>
  static void bind(std::vector<std::pair<uint32_t, T>>& bound, uint32_t number, T to) {
    if (std::none_of(bound.begin(), bound.end(), [&](const auto& known) { return known.first == number; }))
      bound.emplace_back(number, to);
  }

  const ir::Module& module_;
  const Connections& connections_;
  const std::vector<int32_t>& decay_group_;
  const std::vector<bool>& with_parts_;
  Role& role_;
  Binding& binding_;
  std::set<std::pair<ir::AccumulatorId, int32_t>> received_;  // (use, receiving rank)
};

size_t hash_of(const Role& role) {
  size_t hash = role.nodes.size();
  const auto mix = [&](size_t fact) { hash = hash * 0x9e3779b97f4a7c15u + fact; };
  for (ir::NodeId node : role.nodes) mix(node.index);
  for (uint32_t number : role.communicators) mix(number);
  for (const RoleMessage& message : role.messages) mix(message.channel * 3 + static_cast<size_t>(message.way));
  for (int32_t position : role.position) mix(static_cast<size_t>(position));
  for (const UpdatePiece& piece : role.updates) mix(static_cast<size_t>(piece.stretch.end - piece.stretch.begin));
  return hash;
}

}  // namespace

ir::AccumulatorId Role::primary(const ir::StateLayout& state, uint32_t parameter) const {
  for (ir::AccumulatorId use : state.parameter_uses[parameter])
    if (is_member(state.accumulators[use.index].group)) return use;
  return {};
}

Roles find_roles(const ir::Module& module, const Connections& connections, const std::vector<int32_t>& decay_group) {
  const auto world = static_cast<size_t>(module.distribution.world_size);
  std::vector<std::vector<ir::NodeId>> nodes = nodes_of_ranks(module);
  const std::vector<bool> with_parts = teams_with_parts(module);
  std::vector<Role> of_rank(world);
  std::vector<size_t> hashes(world);
  Roles found;
  found.bindings.resize(world);
  parallel_for(world, [&](size_t rank) {
    of_rank[rank].nodes = std::move(nodes[rank]);
    found.bindings[rank].rank = static_cast<int32_t>(rank);
    RoleOfRank(module, connections, decay_group, with_parts, of_rank[rank], found.bindings[rank]).make();
    hashes[rank] = hash_of(of_rank[rank]);
  });
  std::unordered_map<size_t, std::vector<uint32_t>> by_hash;
  for (size_t rank = 0; rank < world; ++rank) {
    std::vector<uint32_t>& candidates = by_hash[hashes[rank]];
    const auto like = std::find_if(candidates.begin(), candidates.end(),
                                   [&](uint32_t role) { return found.roles[role] == of_rank[rank]; });
    if (like != candidates.end()) {
      found.role_of.push_back(*like);
      continue;
    }
    const auto fresh = static_cast<uint32_t>(found.roles.size());
    candidates.push_back(fresh);
    found.role_of.push_back(fresh);
    found.first.push_back(static_cast<int32_t>(rank));
    found.roles.push_back(std::move(of_rank[rank]));
  }
  return found;
}

}  // namespace piper::emit
