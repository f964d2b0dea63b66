#include "compiler/emit/connections.h"

#include <algorithm>
#include <set>

#include "schemas/base/check.h"

namespace piper::emit {
namespace {

// "0,2,4"
std::string every_rank(const std::vector<int32_t>& ranks) {
  std::string text;
  for (int32_t r : ranks) text += (text.empty() ? "" : ",") + std::to_string(r);
  return text;
}

// For more than eight the first and the last: "0..63".
std::string rank_list(const std::vector<int32_t>& ranks) {
  return ranks.size() > 8 ? std::to_string(ranks.front()) + ".." + std::to_string(ranks.back()) : every_rank(ranks);
}

}  // namespace

Connections::Connections(const ir::Module& module)
    : module_(module),
      position_(module.distribution.world_size, std::vector<int32_t>(module.distribution.groups.size(), -1)) {
  for (size_t group = 0; group < module.distribution.groups.size(); ++group)
    for (size_t i = 0; i < module.distribution.groups[group].ranks.size(); ++i)
      position_[module.distribution.groups[group].ranks[i]][group] = static_cast<int32_t>(i);
  place_.assign(module.distribution.world_size, std::vector<Place>(module.distribution.teams.size()));
  for (size_t t = 0; t < module.distribution.teams.size(); ++t)
    for (size_t team = 0; team < module.distribution.teams[t].size(); ++team)
      for (size_t i = 0; i < module.distribution.teams[t][team].size(); ++i)
        place_[module.distribution.teams[t][team][i]][t] = {static_cast<int32_t>(team), static_cast<int32_t>(i)};
  std::set<std::tuple<uint32_t, ir::GroupId, ir::GroupId, size_t>> seen;
  for (ir::NodeId id : module.dag.order) {
    const ir::Node& node = module.dag.nodes[id.index];
    if (const auto* transfer = std::get_if<ir::TransferNode>(&node.payload)) {
      if (const auto* operand = std::get_if<ir::UseOperand>(&transfer->what))
        for (const int32_t rank : module.distribution.ranks(transfer->to))
          brings_.emplace(std::pair(operand->use, rank), transfer);
      if (seen.emplace(node.stream, node.group, transfer->to, transfer->what.index()).second)
        name_channels(node, *transfer);
      continue;
    }
    const auto* collective = std::get_if<ir::CollectiveNode>(&node.payload);
    if (collective == nullptr || communicators_.contains({node.stream, collective->teams.index})) continue;
    const ir::Teams& teams = module.distribution.teams[collective->teams.index];
    name_teams(node.stream, teams);
    for (const std::vector<int32_t>& team : teams)
      communicators_[{node.stream, collective->teams.index}].push_back(teams_.at({node.stream, team}));
  }
}

std::vector<Message> Connections::messages(const ir::Node& node, const ir::TransferNode& n, int32_t rank) const {
  const ir::Distribution& d = module_.distribution;
  std::vector<Message> out;
  if (std::holds_alternative<ir::ValueOperand>(n.what)) {
    const auto replica = [&](ir::GroupId group) {
      const int64_t at = position(group, rank);
      return at < 0 ? at : d.replica_of(group, at);
    };
    const int64_t p = replica(node.group), q = replica(n.to);
    const int64_t senders = d.replicas(node.group), receivers = d.replicas(n.to);
    const int64_t large = std::max(senders, receivers), ratio = large / std::min(senders, receivers);
    // Replicas of the larger group that involve replica `own` of a group of `size`.
    const auto first = [&](int64_t own, int64_t size) { return size == large ? own : own * ratio; };
    const auto end = [&](int64_t own, int64_t size) {
      return own < 0 ? 0 : first(own, size) + (size == large ? 1 : ratio);
    };
    int64_t j = large;
    if (p >= 0) j = std::min(j, first(p, senders));
    if (q >= 0) j = std::min(j, first(q, receivers));
    for (; j < std::max(end(p, senders), end(q, receivers)); ++j)
      for (int64_t place = 0; place < d.places(n.to); ++place) {
        const Message message{d.rank_at(node.group, senders == large ? j : j / ratio, place % d.places(node.group)),
                              d.rank_at(n.to, receivers == large ? j : j / ratio, place), j % ratio};
        if (message.from == rank || message.to == rank) out.push_back(message);
      }
    return out;
  }
  // For anything else the senders have equal copies, and who has one already needs none.
  const auto* use = std::get_if<ir::UseOperand>(&n.what);
  const std::vector<int32_t>&from = d.ranks(node.group), &to = d.ranks(n.to);
  for (size_t j = 0; j < to.size(); ++j)
    if (const int32_t sender = from[j % from.size()]; (to[j] == rank || sender == rank) &&
                                                      position(node.group, to[j]) < 0 &&
                                                      (use == nullptr || brings_.at({use->use, to[j]}) == &n))
      out.push_back({sender, to[j], 0});
  return out;
}

void Connections::name_channels(const ir::Node& node, const ir::TransferNode& n) {
  const std::vector<int32_t>& from = module_.distribution.ranks(node.group);
  const std::vector<int32_t>& to = module_.distribution.ranks(n.to);
  const std::string& stream = module_.distribution.streams[node.stream];
  const std::string groups = stream + ":" + rank_list(from) + ">" + rank_list(to);
  const bool position_by_position =
      from.size() == to.size() && module_.distribution.places(node.group) == module_.distribution.places(n.to);
  for (int32_t rank : from)
    for (const Message& message : messages(node, n, rank)) {
      if (message.from != rank || message.to == rank) continue;
      const auto [known, fresh] = channels_.try_emplace({node.stream, message.from, message.to}, 0);
      if (!fresh) continue;
      const std::vector<int32_t> ends = {message.from, message.to};
      std::string name = groups;
      if (!position_by_position || !claim(name, ends)) {
        name = stream + ":" + std::to_string(message.from) + ">" + std::to_string(message.to);
        claim(name, ends);
      }
      known->second = number(name);
    }
}

void Connections::name_teams(uint32_t stream, const ir::Teams& teams) {
  const bool one_size =
      std::all_of(teams.begin(), teams.end(), [&](const auto& team) { return team.size() == teams[0].size(); });
  std::string together;
  if (teams.size() > 1 && one_size) {
    std::vector<int32_t> all;
    for (const auto& team : teams) all.insert(all.end(), team.begin(), team.end());
    std::sort(all.begin(), all.end());
    together = module_.distribution.streams[stream] + ":" + rank_list(all) + "/" + std::to_string(teams[0].size());
  }
  for (const auto& team : teams) {
    const auto [known, fresh] = teams_.try_emplace({stream, team}, 0);
    if (!fresh) continue;
    std::string name = together;
    if (name.empty() || !claim(name, team)) name = module_.distribution.streams[stream] + ":" + rank_list(team);
    if (!claim(name, team)) name = module_.distribution.streams[stream] + ":" + every_rank(team);
    claim(name, team);
    known->second = number(name);
  }
}

bool Connections::claim(const std::string& name, const std::vector<int32_t>& ranks) {
  const uint32_t n = number(name), claim = claims_.emplace(ranks, claims_.size()).first->second;
  const auto other = [&](int32_t rank) {
    const auto known = claimed_.find({n, rank});
    return known != claimed_.end() && known->second != claim;
  };
  if (std::any_of(ranks.begin(), ranks.end(), other)) return false;
  for (int32_t rank : ranks) claimed_.emplace(std::make_pair(n, rank), claim);
  return true;
}

uint32_t Connections::number(const std::string& name) {
  const auto [known, fresh] = numbers_.emplace(name, static_cast<uint32_t>(names_.size()));
  if (fresh) names_.push_back(name);
  return known->second;
}

}  // namespace piper::emit
