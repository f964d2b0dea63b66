#include "compiler/emit/role.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "schemas/base/check.h"
#include "schemas/base/parallel.h"

namespace piper::emit {
namespace {

// [rank] -> the nodes that it takes part in, of those ranks that are wanted.
std::vector<std::vector<ir::NodeId>> nodes_of_ranks(const ir::Module& module, const std::vector<bool>& wanted) {
  const ir::Distribution& d = module.distribution;
  std::vector<std::vector<int32_t>> members;  // [group] that are wanted
  for (const ir::DeviceGroup& group : d.groups) {
    members.emplace_back();
    std::copy_if(group.ranks.begin(), group.ranks.end(), std::back_inserter(members.back()),
                 [&](int32_t rank) { return wanted[rank]; });
  }
  std::vector<std::vector<ir::NodeId>> nodes(d.world_size);
  for (ir::NodeId id : module.dag.order) {
    const ir::Node& node = module.dag.nodes[id.index];
    const std::vector<int32_t>& ranks = members[node.group.index];
    for (int32_t rank : ranks) nodes[rank].push_back(id);
    if (const auto* message = std::get_if<ir::TransferNode>(&node.payload))
      for (int32_t rank : members[message->to.index])
        if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) nodes[rank].push_back(id);
  }
  return nodes;
}

// Nodes by what a rank's part in them depends on: of each kind one, in the order of the DAG. A module has as many as
// groups, streams and buckets, whatever the number of its microbatches.
struct KindsOfNodes {
  std::vector<const ir::Node*> transfers, collectives, updates, measures;

  explicit KindsOfNodes(const ir::Module& module) {
    std::set<std::tuple<size_t, uint32_t, uint32_t, uint32_t>> seen;  // (kind, stream, group, what it is with)
    for (ir::NodeId id : module.dag.order) {
      const ir::Node& node = module.dag.nodes[id.index];
      const auto keep = [&](std::vector<const ir::Node*>& list, size_t kind, uint32_t with) {
        if (seen.emplace(kind, node.stream, node.group.index, with).second) list.push_back(&node);
      };
      if (const auto* transfer = std::get_if<ir::TransferNode>(&node.payload))
        keep(transfers, std::holds_alternative<ir::ValueOperand>(transfer->what) ? 0 : 1, transfer->to.index);
      if (const auto* collective = std::get_if<ir::CollectiveNode>(&node.payload))
        keep(collectives, 2, collective->teams.index);
      if (const auto* update = std::get_if<ir::UpdateNode>(&node.payload)) keep(updates, 3, update->bucket.index);
      if (const auto* step = std::get_if<ir::StepNode>(&node.payload); step != nullptr && is_measure(*step))
        keep(measures, 4, 0);
    }
  }
  static bool is_measure(const ir::StepNode& step) {
    return std::holds_alternative<ir::MeasureGradients>(step.work) ||
           std::holds_alternative<ir::CheckGradients>(step.work);
  }
};

// [teams] whether members keep parts by their position.
std::vector<bool> teams_with_parts(const ir::Module& module) {
  std::vector<bool> parts(module.distribution.teams.size(), false);
  for (const ir::Bucket& bucket : module.state.buckets)
    if (bucket.moments == ir::Kept::kPart) parts[bucket.teams.index] = true;
  return parts;
}

// Finds out what binds one rank, and makes its role.
class RoleOfRank {
 public:
  RoleOfRank(const ir::Module& module, const Connections& connections, const std::vector<int32_t>& decay_group,
             Role& role, Binding& binding)
      : module_(module), connections_(connections), decay_group_(decay_group), role_(role), binding_(binding) {}

  // Binds the rank, and appends to `facts` what its role depends on beside the module and positions in teams: ranks of
  // equal facts have equal roles, apart from those. Costs little beside make(), which walks all nodes.
  void bind(const KindsOfNodes& kinds, std::vector<int64_t>& facts) {
    begin();
    const auto note = [&](const auto&... fact) { facts.insert(facts.end(), {static_cast<int64_t>(fact)...}); };
    for (const bool member : role_.member) note(member);
    note(role_.keeps_unread.size());
    for (const uint32_t parameter : role_.keeps_unread) note(parameter);
    std::vector<int32_t> others;  // a gradient that several messages would bring to a rank comes once (add_messages)
    for (const ir::Node* node : kinds.transfers) {
      const auto messages = connections_.messages(*node, std::get<ir::TransferNode>(node->payload), binding_.rank);
      note(messages.size());
      for (const Message& message : messages) {
        add_message(*node, message);
        const int32_t other = message.from == binding_.rank ? message.to : message.from;
        const auto known = std::find(others.begin(), others.end(), other) - others.begin();
        if (static_cast<size_t>(known) == others.size()) others.push_back(other);
        const RoleMessage& added = role_.messages.back();
        note(added.way, added.channel, added.part, known);
      }
    }
    for (const ir::Node* node : kinds.collectives)
      if (role_.is_member(node->group)) note(join(node->stream, std::get<ir::CollectiveNode>(node->payload).teams));
    for (const ir::Node* node : kinds.updates) {
      role_.updates.clear();
      if (role_.is_member(node->group)) add_updates(std::get<ir::UpdateNode>(node->payload).bucket);
      note(role_.updates.size());
      for (const UpdatePiece& piece : role_.updates)
        note(piece.group, piece.stretch.begin, piece.stretch.end, piece.columns);
    }
    if (std::any_of(kinds.measures.begin(), kinds.measures.end(),
                    [&](const ir::Node* node) { return role_.is_member(node->group); }))
      measure();
    for (const uint32_t parameter : role_.measures) note(parameter);
    for (const MeasuredPiece& piece : role_.measured_pieces)
      note(piece.bucket.index, piece.stretch.begin, piece.stretch.end);
  }

  // For a role that has its nodes.
  void make() {
    begin();
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
        if (role_.measures.empty() && role_.measured_pieces.empty() && KindsOfNodes::is_measure(*step)) measure();
      }
    }
    role_.first_message.push_back(static_cast<uint32_t>(role_.messages.size()));
    role_.first_update.push_back(static_cast<uint32_t>(role_.updates.size()));
  }

 private:
  void begin() {
    for (size_t group = 0; group < module_.distribution.groups.size(); ++group)
      role_.member.push_back(connections_.position(ir::GroupId(group), binding_.rank) >= 0);
    const ir::StateLayout& state = module_.state;
    for (uint32_t p = 0; p < state.unread.size(); ++p)
      if (state.unread[p] && state.parameter_owner[p] == binding_.rank) role_.keeps_unread.push_back(p);
  }

  void measure() {
    const auto counts = [&](ir::AccumulatorId use) {
      return module_.state.owns(module_.distribution, use, binding_.rank) && has_weights(use);
    };
    std::vector<bool> seen(module_.state.buckets.size(), false);
    for (uint32_t p = 0; p < module_.state.parameter_uses.size(); ++p) {
      const ir::AccumulatorId use = role_.primary(module_.state, p);
      if (!use.valid() || !counts(use)) continue;
      const ir::BucketId bucket = module_.state.accumulators[use.index].bucket;
      if (!measures_pieces(module_.state.buckets[bucket.index])) {
        role_.measures.push_back(p);
        role_.counts_parts = true;
      } else if (!seen[bucket.index]) {
        seen[bucket.index] = true;
        for (const UpdatePiece& piece : pieces_of(bucket, counts))
          role_.measured_pieces.push_back({bucket, first_of_group(bucket, piece.group, counts), piece.stretch});
      }
    }
  }
  static bool measures_pieces(const ir::Bucket& bucket) {
    return bucket.moments == ir::Kept::kPart && !bucket.matrices;
  }
  template <class Wanted>
  uint32_t first_of_group(ir::BucketId id, int32_t group, const Wanted& wanted) const {
    const auto parameter_of = [&](ir::AccumulatorId use) { return module_.state.accumulators[use.index].parameter; };
    const auto& uses = module_.state.buckets[id.index].accumulators;
    const auto first = std::find_if(uses.begin(), uses.end(), [&](ir::AccumulatorId use) {
      return decay_group_[parameter_of(use)] == group && wanted(use);
    });
    PIPER_CHECK(first != uses.end(), "a piece of no parameter");
    return parameter_of(*first);
  }

  // A parameter that several stages use has its weights in the bucket of the first use.
  bool has_weights(ir::AccumulatorId use) const {
    return role_.primary(module_.state, module_.state.accumulators[use.index].parameter) == use;
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

  ir::Stretch part_of(const ir::Bucket& bucket) const {
    return bucket.kept(bucket.moments, connections_.place(bucket.teams, binding_.rank).position);
  }
  void add_updates(ir::BucketId id) {
    const ir::Bucket& bucket = module_.state.buckets[id.index];
    if (bucket.matrices) return add_matrices(bucket, part_of(bucket));
    const std::vector<UpdatePiece> pieces = pieces_of(id, [&](ir::AccumulatorId use) { return has_weights(use); });
    role_.updates.insert(role_.updates.end(), pieces.begin(), pieces.end());
  }
  // Consecutive parameters of one decay group that are wanted become one piece, cut to the part that this device
  // updates.
  template <class Wanted>
  std::vector<UpdatePiece> pieces_of(ir::BucketId id, const Wanted& wanted) const {
    std::vector<UpdatePiece> pieces;
    const ir::Bucket& bucket = module_.state.buckets[id.index];
    const ir::Stretch here = part_of(bucket);
    for (size_t i = 0; i < bucket.accumulators.size();) {
      const ir::Accumulator& first = module_.state.accumulators[bucket.accumulators[i].index];
      if (!wanted(bucket.accumulators[i])) {
        ++i;
        continue;
      }
      const int32_t group = decay_group_[first.parameter];
      ir::Stretch updated{first.offset, first.offset};
      for (; i < bucket.accumulators.size() && wanted(bucket.accumulators[i]); ++i) {
        const ir::Accumulator& a = module_.state.accumulators[bucket.accumulators[i].index];
        if (decay_group_[a.parameter] != group) break;
        updated.end = a.offset + a.bytes;
      }
      // What fills the last part up is updated, too: zeros by zeros, so that all members do the same.
      if (bucket.moments == ir::Kept::kPart && i == bucket.accumulators.size()) updated.end = bucket.bytes;
      updated = {std::max(updated.begin, here.begin), std::min(updated.end, here.end)};
      if (updated.begin < updated.end)
        pieces.push_back({group, {updated.begin - here.begin, updated.end - here.begin}, 0});
    }
    return pieces;
  }

  void add_messages(const ir::Node& node, const ir::TransferNode& n) {
    const auto* use = std::get_if<ir::UseOperand>(&n.what);
    if (use != nullptr) takes_use(use->use);
    for (const Message& message : connections_.messages(node, n, binding_.rank)) add_message(node, message);
  }

  void add_message(const ir::Node& node, const Message& message) {
    if (message.from == message.to) return role_.messages.push_back({RoleMessage::Way::kStays, 0, message.part});
    const bool sends = message.from == binding_.rank;
    const uint32_t channel = connections_.channel(node.stream, message.from, message.to);
    role_.messages.push_back({sends ? RoleMessage::Way::kSends : RoleMessage::Way::kReceives, channel, message.part});
    bind(binding_.peers, channel, sends ? message.to : message.from);
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
  Role& role_;
  Binding& binding_;
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

// Numbers from 0 for what is equal, in the order of first use.
class Numbers {
 public:
  uint32_t of(std::vector<int64_t> facts) {
    return numbers_.try_emplace(std::move(facts), static_cast<uint32_t>(numbers_.size())).first->second;
  }
  size_t size() const { return numbers_.size(); }

 private:
  std::map<std::vector<int64_t>, uint32_t> numbers_;
};

// Roles as the nodes of their first ranks make them, each once, by their hash.
class DistinctRoles {
 public:
  explicit DistinctRoles(Roles& found) : found_(found) {}
  uint32_t add(Role&& role, int32_t rank) {
    std::vector<uint32_t>& candidates = by_hash_[hash_of(role)];
    const auto like =
        std::find_if(candidates.begin(), candidates.end(), [&](uint32_t known) { return found_.roles[known] == role; });
    if (like != candidates.end()) return *like;
    candidates.push_back(static_cast<uint32_t>(found_.roles.size()));
    found_.first.push_back(rank);
    found_.roles.push_back(std::move(role));
    return candidates.back();
  }

 private:
  Roles& found_;
  std::unordered_map<size_t, std::vector<uint32_t>> by_hash_;
};

Roles find_roles(const ir::Module& module, const Connections& connections, const std::vector<int32_t>& decay_group) {
  const auto world = static_cast<size_t>(module.distribution.world_size);
  const KindsOfNodes kinds(module);
  Roles found;
  found.bindings.resize(world);
  std::vector<std::vector<int64_t>> facts(world);
  parallel_for(world, [&](size_t rank) {
    Role scratch;
    found.bindings[rank].rank = static_cast<int32_t>(rank);
    RoleOfRank(module, connections, decay_group, scratch, found.bindings[rank]).bind(kinds, facts[rank]);
  });
  // For ranks with equal facts the first one's nodes are walked.
  Numbers alike;
  std::vector<uint32_t> alike_of(world);  // [rank]
  std::vector<int32_t> first;             // [alike]
  std::vector<bool> is_first(world, false);
  for (size_t rank = 0; rank < world; ++rank) {
    alike_of[rank] = alike.of(std::move(facts[rank]));
    if (alike.size() == first.size()) continue;
    first.push_back(static_cast<int32_t>(rank));
    is_first[rank] = true;
  }
  std::vector<std::vector<ir::NodeId>> nodes = nodes_of_ranks(module, is_first);
  std::vector<Role> made(first.size());
  parallel_for(first.size(), [&](size_t i) {
    Binding scratch;
    scratch.rank = first[i];
    made[i].nodes = std::move(nodes[first[i]]);
    RoleOfRank(module, connections, decay_group, made[i], scratch).make();
  });
  const std::vector<bool> with_parts = teams_with_parts(module);
  Numbers by_position;
  std::vector<uint32_t> role_of_position;
  DistinctRoles distinct(found);
  for (size_t rank = 0; rank < world; ++rank) {
    const Role& role = made[alike_of[rank]];
    // What is counted is cut at other places for each position.
    std::vector<int64_t> position = {alike_of[rank]};
    for (size_t t = 0; t < with_parts.size(); ++t)
      position.push_back(with_parts[t] && role.counts_parts
                             ? connections.place(ir::TeamsId(t), static_cast<int32_t>(rank)).position
                             : -1);
    std::vector<int32_t> own(position.begin() + 1, position.end());
    const uint32_t number = by_position.of(std::move(position));
    if (by_position.size() > role_of_position.size()) {
      Role copy = role;
      copy.position = std::move(own);
      role_of_position.push_back(distinct.add(std::move(copy), static_cast<int32_t>(rank)));
    }
    found.role_of.push_back(role_of_position[number]);
  }
  return found;
}

}  // namespace piper::emit
