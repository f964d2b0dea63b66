#include "compiler/ir/distribution.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "compiler/ir/op_traits.h"
#include "schemas/base/check.h"

namespace piper::ir {

int64_t RowBound::rows_of_expert(int64_t rows, int64_t experts) const {
  const double wanted = factor * static_cast<double>(rows) / static_cast<double>(experts);
  if (wanted >= static_cast<double>(rows)) return rows;
  const double nearest = std::round(wanted);
  const double bound = std::abs(wanted - nearest) <= 1e-9 * nearest ? nearest : std::ceil(wanted);
  return std::clamp<int64_t>(static_cast<int64_t>(bound), 1, rows);
}

Teams DeviceGroup::columns() const {
  Teams columns(static_cast<size_t>(places));
  for (size_t position = 0; position < ranks.size(); ++position)
    columns[position % columns.size()].push_back(ranks[position]);
  return columns;
}

std::string DeviceGroup::size_text() const {
  if (places == 1) return std::to_string(ranks.size()) + " devices";
  return std::to_string(replicas()) + " replicas of " + std::to_string(places) + " devices";
}

bool is_among(OpKind kind, RepeatedOps ops) {
  switch (ops) {
    case RepeatedOps::kAll: return true;
    case RepeatedOps::kAllButProducts: return takes(kind) != Takes::kCompute;
    case RepeatedOps::kAttention: return kind == OpKind::kSdpa;
  }
  return false;
}

bool ChunkProperties::recomputed_always() const {
  return !recomputed.empty() && std::find(recomputed.begin(), recomputed.end(), false) == recomputed.end();
}

bool ChunkProperties::recomputed_sometimes() const {
  return std::adjacent_find(recomputed.begin(), recomputed.end(), std::not_equal_to<>()) != recomputed.end();
}

Teams DeviceGroup::rows() const {
  Teams rows(static_cast<size_t>(replicas()));
  for (size_t position = 0; position < ranks.size(); ++position)
    rows[position / static_cast<size_t>(places)].push_back(ranks[position]);
  return rows;
}

bool ChunkProperties::alike(const ChunkProperties& other) const {
  return groups == other.groups && message_stream == other.message_stream && placed_by == other.placed_by &&
         replication == other.replication && backward_split == other.backward_split && recomputed == other.recomputed &&
         repeats == other.repeats && compute_streams == other.compute_streams;
}

uint32_t Distribution::compute_stream(ChunkId chunk, Phase phase, int32_t microbatch) const {
  const auto& said = chunks[chunk.index].compute_streams;
  if (said.empty()) return 0;
  const auto it = said.find({phase, microbatch});
  return it == said.end() ? 0 : it->second;
}

bool Distribution::has_several_compute_streams() const {
  return std::any_of(chunks.begin(), chunks.end(), [](const ChunkProperties& c) { return !c.compute_streams.empty(); });
}

GroupId Distribution::intern_group(const DeviceGroup& group) {
  for (size_t g = 0; g < groups.size(); ++g)
    if (groups[g] == group) return GroupId(g);
  groups.push_back(group);
  return GroupId(groups.size() - 1);
}

int64_t Distribution::place_of_rank(GroupId group, int32_t rank) const {
  if (places(group) == 1) return 0;
  const std::vector<int32_t>& members = ranks(group);
  const auto at = std::find(members.begin(), members.end(), rank);
  PIPER_CHECK(at != members.end(), "rank ", rank, " is not in group ", group.index);
  return place_of(group, at - members.begin());
}

int32_t Distribution::cut_of_rank(int32_t rank) const {
  for (size_t c = 0; c < cuts.size(); ++c)
    for (const std::vector<int32_t>& group : cuts[c].groups)
      if (std::find(group.begin(), group.end(), rank) != group.end()) return static_cast<int32_t>(c);
  return -1;
}

const std::vector<int32_t>& Distribution::sharing_with(int32_t rank) const {
  const int32_t cut = cut_of_rank(rank);
  PIPER_CHECK(cut >= 0, "rank ", rank, " shares samples with no other");
  for (const std::vector<int32_t>& group : cuts[static_cast<size_t>(cut)].groups)
    if (std::find(group.begin(), group.end(), rank) != group.end()) return group;
  return cuts[static_cast<size_t>(cut)].groups.front();
}

DeviceGroup Distribution::joined(const std::vector<GroupId>& of) const {
  PIPER_CHECK(!of.empty(), "no group to join");
  DeviceGroup all{{}, places(of[0])};
  std::vector<bool> joined(groups.size(), false), member(static_cast<size_t>(world_size), false);
  for (const GroupId group : of) {
    PIPER_CHECK(places(group) == all.places, "groups of ", all.places, " and of ", places(group), " places are joined");
    if (joined[group.index]) continue;
    joined[group.index] = true;
    for (const int32_t rank : ranks(group)) {
      if (!member[static_cast<size_t>(rank)]) all.ranks.push_back(rank);
      member[static_cast<size_t>(rank)] = true;
    }
  }
  return all;
}

TeamsId Distribution::intern_teams(const Teams& members) {
  for (size_t t = 0; t < teams.size(); ++t)
    if (teams[t] == members) return TeamsId(t);
  teams.push_back(members);
  return TeamsId(teams.size() - 1);
}

uint32_t Distribution::intern_stream(const std::string& name) {
  for (size_t s = 0; s < streams.size(); ++s)
    if (streams[s] == name) return static_cast<uint32_t>(s);
  streams.push_back(name);
  return static_cast<uint32_t>(streams.size() - 1);
}

std::vector<GroupId> Distribution::groups_of(ChunkId chunk) const {
  std::vector<GroupId> found = chunks[chunk.index].groups;
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

int32_t Distribution::round_of(ChunkId chunk, int32_t microbatch) const {
  const std::vector<GroupId>& row = chunks[chunk.index].groups;
  return static_cast<int32_t>(std::count(row.begin(), row.begin() + microbatch, row[microbatch]));
}

bool Distribution::has_member(GroupId group, int32_t rank) const {
  const std::vector<int32_t>& members = ranks(group);
  return std::find(members.begin(), members.end(), rank) != members.end();
}

bool Distribution::is_front(TeamsId of, int32_t rank) const {
  return std::any_of(teams[of.index].begin(), teams[of.index].end(),
                     [&](const std::vector<int32_t>& team) { return team.front() == rank; });
}

int32_t Distribution::cut_of_experts(int32_t shard) const {
  const std::vector<int32_t>& group = expert_groups[static_cast<size_t>(shard)].groups.front();
  const int32_t cut = cut_of_rank(group.front());
  if (cut < 0) return -1;
  const std::vector<int32_t>& together = sharing_with(group.front());
  const auto shared = std::count_if(group.begin(), group.end(), [&](int32_t rank) {
    return std::find(together.begin(), together.end(), rank) != together.end();
  });
  return shared > 1 ? cut : -1;
}

const std::vector<int32_t>& Distribution::expert_group_of(int32_t shard, int32_t rank) const {
  for (const std::vector<int32_t>& group : expert_groups[shard].groups)
    if (std::find(group.begin(), group.end(), rank) != group.end()) return group;
  PIPER_CHECK(false, "rank ", rank, " is in no group of expert shard ", shard);
  return expert_groups[shard].groups.front();
}

void Distribution::refine(const std::vector<ChunkId>& from) {
  std::vector<ChunkProperties> rows;
  rows.reserve(from.size());
  for (ChunkId old : from) rows.push_back(chunks[old.index]);
  chunks = std::move(rows);
}

void Distribution::merge(const std::vector<ChunkId>& into) {
  std::vector<ChunkProperties> rows;
  for (size_t c = 0; c < into.size(); ++c) {
    if (into[c].index == rows.size()) {
      rows.push_back(std::move(chunks[c]));
      continue;
    }
    std::vector<ProvId>& notes = rows.back().notes;
    notes.insert(notes.end(), chunks[c].notes.begin(), chunks[c].notes.end());
    std::sort(notes.begin(), notes.end());
    notes.erase(std::unique(notes.begin(), notes.end()), notes.end());
  }
  chunks = std::move(rows);
}

}  // namespace piper::ir
