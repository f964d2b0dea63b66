// Checks the rules D of verify_module.h.
#include <algorithm>
#include <map>
#include <set>

#include "compiler/ir/verify_module.h"
#include "compiler/ir/verify_parts.h"

namespace piper::ir {
namespace {

class DistributionVerifier {
 public:
  explicit DistributionVerifier(const Module& module) : module_(module), d_(module.distribution) {}

  Status run() {
    PIPER_RETURN_IF_ERROR(streams());
    PIPER_RETURN_IF_ERROR(groups());
    for (size_t t = 0; t < d_.teams.size(); ++t) {
      const std::vector<int32_t> all = joined(d_.teams[t]);
      if (all.empty()) return broken(kRuleGroups, "teams " + std::to_string(t) + " are empty");
      PIPER_RETURN_IF_ERROR(distinct(all, kRuleGroups, "teams " + std::to_string(t)));
    }
    for (const ExpertGroups& experts : d_.expert_groups) PIPER_RETURN_IF_ERROR(expert_groups(experts));
    PIPER_RETURN_IF_ERROR(cuts());
    // Before directives are resolved there are no rows.
    if (!d_.chunks.empty() && !module_.variants.empty() && d_.chunks.size() != module_.chunks().size())
      return broken(kRuleRows, std::to_string(d_.chunks.size()) + " rows for " +
                                   std::to_string(module_.chunks().size()) + " chunks");
    for (size_t c = 0; c < d_.chunks.size(); ++c)
      PIPER_RETURN_IF_ERROR(row(ChunkId(c), d_.chunks[c]).with_context(chunk_text(module_, ChunkId(c))));
    return {};
  }

 private:
  Status stream(uint32_t index, const char* whose) const {
    if (index < d_.streams.size()) return {};
    return broken(kRuleStreams, std::string(whose) + " on stream " + std::to_string(index) + " of " +
                                    std::to_string(d_.streams.size()));
  }

  Status streams() const {
    if (d_.streams.empty()) return broken(kRuleStreams, "there is no stream of computes");
    std::set<std::string_view> names;
    for (const std::string& name : d_.streams)
      if (name.empty() || !names.insert(name).second)
        return broken(kRuleStreams, "two streams are named '" + name + "'");
    return {};
  }

  Status groups() const {
    if (d_.world_size < 1) return broken(kRuleGroups, "there is no rank");
    std::set<std::pair<std::vector<int32_t>, int32_t>> known;
    for (size_t g = 0; g < d_.groups.size(); ++g) {
      const std::string name = "group " + std::to_string(g);
      const std::vector<int32_t>& ranks = d_.groups[g].ranks;
      if (ranks.empty()) return broken(kRuleGroups, name + " is empty");
      PIPER_RETURN_IF_ERROR(distinct(ranks, kRuleGroups, name));
      const int32_t places = d_.groups[g].places;
      if (places < 1 || ranks.size() % static_cast<size_t>(places) != 0)
        return broken(kRuleGroups, name + " has " + std::to_string(places) + " places for " +
                                       std::to_string(ranks.size()) + " ranks");
      if (!known.emplace(ranks, places).second) return broken(kRuleGroups, name + " is the same as one before");
    }
    return {};
  }

  Status cuts() const {
    std::vector<int32_t> all;
    for (const Cut& cut : d_.cuts) {
      PIPER_RETURN_IF_ERROR(stream(cut.stream, "sums over places"));
      PIPER_RETURN_IF_ERROR(verify_prov(module_, cut.prov, "a cut"));
      if (cut.groups.empty() || cut.places() < 2) return broken(kRuleGroups, "a cut has no two places");
      for (const std::vector<int32_t>& group : cut.groups) {
        if (group.size() != cut.groups[0].size()) return broken(kRuleGroups, "the groups of a cut have several sizes");
        all.insert(all.end(), group.begin(), group.end());
      }
    }
    PIPER_RETURN_IF_ERROR(distinct(all, kRuleGroups, "a cut"));
    if (d_.chunks.empty() || module_.variants.empty()) return {};
    for (const Parameter& p : module_.graph().parameters())
      if (p.cut && (p.cut->cut >= static_cast<int32_t>(d_.cuts.size()) ||
                    p.cut->places != d_.cuts[static_cast<size_t>(p.cut->cut)].places()))
        return broken(kRuleGroups, "'" + p.names[0] + "' is a part of " + std::to_string(p.cut->places) + ", and cut " +
                                       std::to_string(p.cut->cut) + " has not as many places");
    return {};
  }

  // A rank shares samples with the same ranks, at the same place, whatever it runs.
  Status shared_alike(GroupId group) {
    if (!sharing_checked_.insert(group).second) return {};
    const DeviceGroup& of = d_.groups[group.index];
    for (auto replica = of.ranks.begin(); replica != of.ranks.end(); replica += of.places) {
      const std::vector<int32_t> together(replica, replica + of.places);
      for (const int32_t rank : together) {
        const std::string there =
            "rank " + std::to_string(rank) + " shares samples with other ranks in group " + std::to_string(group.index);
        if (sharing_.emplace(rank, together).first->second != together)
          return broken(kRuleGroupOfRow, there + " than in one before");
        if (d_.cut_of_rank(rank) >= 0 && d_.sharing_with(rank) != together)
          return broken(kRuleGroupOfRow, there + " than in its cut");
      }
    }
    return {};
  }

  Status distinct(const std::vector<int32_t>& ranks, const char* rule, const std::string& whose) const {
    std::set<int32_t> seen;
    for (const int32_t rank : ranks) {
      if (rank < 0 || rank >= d_.world_size)
        return broken(rule,
                      whose + " has rank " + std::to_string(rank) + " in a world of " + std::to_string(d_.world_size));
      if (!seen.insert(rank).second) return broken(rule, whose + " has rank " + std::to_string(rank) + " twice");
    }
    return {};
  }

  Status expert_groups(const ExpertGroups& experts) const {
    PIPER_RETURN_IF_ERROR(stream(experts.stream, "exchanges"));
    PIPER_RETURN_IF_ERROR(verify_prov(module_, experts.prov, "a shard"));
    if (experts.groups.empty() || experts.groups[0].empty()) return broken(kRuleExperts, "a shard has no ranks");
    for (const std::vector<int32_t>& group : experts.groups)
      if (group.size() != experts.groups[0].size())
        return broken(kRuleExperts, "the groups of a shard have several sizes");
    if (experts.bound && !(experts.bound->factor > 0)) return broken(kRuleSizes, "a bound of rows is not positive");
    return distinct(joined(experts.groups), kRuleExperts, "a shard");
  }

  Status row(ChunkId chunk, const ChunkProperties& row) {
    const auto microbatches = static_cast<size_t>(module_.step.num_microbatches);
    if (row.groups.size() != microbatches || row.devices.size() != microbatches ||
        row.recomputed.size() != microbatches)
      return broken(kRuleMicrobatches, std::to_string(row.groups.size()) + " groups, " +
                                           std::to_string(row.devices.size()) + " places and " +
                                           std::to_string(row.recomputed.size()) + " repetitions for " +
                                           std::to_string(microbatches) + " microbatches");
    for (const GroupId group : row.groups)
      if (group.index >= d_.groups.size())
        return broken(kRuleGroupOfRow, group.valid() ? "runs on group " + std::to_string(group.index) + " of " +
                                                           std::to_string(d_.groups.size())
                                                     : "runs on no group");
    for (const GroupId group : d_.groups_of(chunk)) {
      if (d_.places(group) != d_.places(row.groups[0]))
        return broken(kRuleGroupOfRow, "runs on groups of " + std::to_string(d_.places(row.groups[0])) + " and of " +
                                           std::to_string(d_.places(group)) + " places");
      PIPER_RETURN_IF_ERROR(shared_alike(group));
    }
    PIPER_RETURN_IF_ERROR(verify_prov(module_, row.placed_by, "its place"));
    PIPER_RETURN_IF_ERROR(verify_prov(module_, row.replication.prov, "its replication"));
    PIPER_RETURN_IF_ERROR(row_streams(row));
    if (row.replication.bucket_bytes < -1 || row.replication.prefetch < 0 || row.replication.whole_below < 0 ||
        row.segment_bytes < -1)
      return broken(kRuleSizes, "a negative size");
    for (const ProvId note : row.notes) PIPER_RETURN_IF_ERROR(verify_prov(module_, note, "a note"));
    // A chunk that is cut is of the shard that its row asks for.
    const int32_t cut_by = module_.variants.empty() ? -1 : module_.chunks()[chunk.index].shard;
    if (cut_by >= 0 && cut_by != row.shard)
      return broken(kRuleExperts, "is cut by shard " + std::to_string(cut_by) + ", not by that of its row");
    return row.shard == -1 ? Status() : partitioned(chunk, row.shard);
  }

  Status row_streams(const ChunkProperties& row) const {
    PIPER_RETURN_IF_ERROR(stream(row.message_stream, "messages"));
    PIPER_RETURN_IF_ERROR(stream(row.replication.stream, "reductions"));
    PIPER_RETURN_IF_ERROR(stream(row.replication.gather_stream, "gathers"));
    for (const auto& [at, index] : row.compute_streams) {
      PIPER_RETURN_IF_ERROR(stream(index, "a compute"));
      if (index == 0 || at.second < 0 || at.second >= module_.step.num_microbatches)
        return broken(kRuleStreams, "a compute of microbatch " + std::to_string(at.second) + " is put on stream " +
                                        std::to_string(index));
    }
    return {};
  }

  bool at_one_place(GroupId group, const std::vector<int32_t>& ranks) const {
    return std::all_of(ranks.begin(), ranks.end(), [&](int32_t rank) {
      return d_.place_of_rank(group, rank) == d_.place_of_rank(group, ranks[0]);
    });
  }
  bool has_whole_replicas(GroupId group, const std::vector<int32_t>& ranks) const {
    const Teams rows = d_.rows(group);
    return std::all_of(rows.begin(), rows.end(), [&](const std::vector<int32_t>& row) {
      const auto within = std::count_if(row.begin(), row.end(), [&](int32_t rank) {
        return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
      });
      return within == 0 || within == static_cast<int64_t>(row.size());
    });
  }

  // Every group of the shard that has a rank of a group that runs the chunk lies in it whole, at one place or with all
  // places of its replicas, and together they are it.
  Status partitioned(ChunkId chunk, int32_t shard) {
    if (shard < 0 || shard >= static_cast<int32_t>(d_.expert_groups.size()))
      return broken(kRuleExperts,
                    "is of shard " + std::to_string(shard) + " of " + std::to_string(d_.expert_groups.size()));
    for (const GroupId group : d_.groups_of(chunk)) {
      if (!checked_.emplace(shard, group).second) continue;
      const std::vector<int32_t>& ranks = d_.ranks(group);
      const std::set<int32_t> members(ranks.begin(), ranks.end());
      size_t covered = 0;
      for (const std::vector<int32_t>& experts : d_.expert_groups[shard].groups) {
        const auto within = static_cast<size_t>(
            std::count_if(experts.begin(), experts.end(), [&](int32_t rank) { return members.count(rank) > 0; }));
        if (within != 0 && within != experts.size()) covered = members.size() + 1;
        covered += within;
        if (within != experts.size()) continue;
        if (!at_one_place(group, experts) && !has_whole_replicas(group, experts))
          return broken(kRuleExperts, "a group of its shard has some of the places of replicas of group " +
                                          std::to_string(group.index));
      }
      if (covered != members.size())
        return broken(kRuleExperts, "the groups of its shard do not partition group " + std::to_string(group.index));
    }
    return {};
  }

  const Module& module_;
  const Distribution& d_;
  std::set<std::pair<int32_t, GroupId>> checked_;  // (shard, group that runs a chunk of it)
  std::set<GroupId> sharing_checked_;
  std::map<int32_t, std::vector<int32_t>> sharing_;  // rank -> all ranks of its replica, by place
};

}  // namespace

Status verify_distribution(const Module& module) { return DistributionVerifier(module).run(); }

}  // namespace piper::ir
