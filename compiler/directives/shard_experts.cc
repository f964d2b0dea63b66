#include "compiler/directives/shard_experts.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/strategy/directive_args.h"

namespace piper::directives {
namespace {

// How many devices of `placed` are in one of the groups; -1 where a group has some of its devices outside of `placed`.
int64_t covered(const std::vector<std::vector<int32_t>>& groups, const std::vector<int32_t>& placed) {
  int64_t count = 0;
  for (const std::vector<int32_t>& group : groups) {
    const auto within = std::count_if(group.begin(), group.end(), [&](int32_t rank) {
      return std::find(placed.begin(), placed.end(), rank) != placed.end();
    });
    if (within != 0 && within != static_cast<int64_t>(group.size())) return int64_t{-1};
    count += within;
  }
  return count;
}

// How many of a replica's devices the groups that the claim has contain: one each, all, or some.
enum class Places : uint8_t { kOne, kAll, kSome };
Places places_of(const std::vector<std::vector<int32_t>>& groups, const Claim& claim) {
  bool one = true, all = true;
  for (const std::vector<int32_t>& group : groups) {
    std::map<int64_t, int32_t> members;  // by replica
    std::set<int64_t> places;
    for (const int32_t rank : group)
      if (const auto at = std::find(claim.ranks.begin(), claim.ranks.end(), rank); at != claim.ranks.end()) {
        ++members[(at - claim.ranks.begin()) / claim.places];
        places.insert((at - claim.ranks.begin()) % claim.places);
      }
    one = one && places.size() <= 1;
    for (const auto& [replica, count] : members) all = all && count == claim.places;
  }
  return one ? Places::kOne : all ? Places::kAll : Places::kSome;
}

// Error P0259: experts over devices that share samples, each of which would send all tokens of these.
Status check_tokens(const Resolution& draft, ir::ChunkId region, const ir::ExpertGroups& shard, const diag::Span& span,
                    diag::Diagnostics& diags) {
  const std::vector<ir::CutSeed>& seeds = draft.distribution.chunks[region.index].seeds;
  const bool divided = std::any_of(seeds.begin(), seeds.end(),
                                   [](const ir::CutSeed& seed) { return seed.dim == ir::CutDim::kSequence; });
  for (int32_t m = 0; m < draft.step.num_microbatches; ++m) {
    const Places places = places_of(shard.groups, draft.claims.at(region, m));
    if (places == Places::kOne || (places == Places::kAll && divided)) continue;
    auto error = diags.error("P0259", span);
    error << "the experts of " << draft.regions[region.index].name
          << " are divided over devices that share their samples";
    if (places == Places::kAll) {
      error.note("nothing divides the sequence over these devices, so each of them has all tokens");
      error.help(
          "add {op: shard, dim: sequence, ..} over the same devices, or divide the experts only over other devices");
    } else {
      error.note("a group has some of the devices that share samples");
      error.help("put all devices that share samples into one group, or each into another");
    }
    return error;
  }
  return Status();
}

}  // namespace

Status shard_experts(const strategy::Directive& directive, const RankGroups& over, Resolution& draft,
                     diag::Diagnostics& diags) {
  PIPER_ASSIGN(const auto filter, strategy::required_arg<strategy::Filter>(directive, "filter"));
  PIPER_ASSIGN(const Selection selection, draft.selector.select(filter, diags));
  for (ir::ChunkId region : selection.chunks) {
    const int32_t other = draft.properties(region).shard;
    if (other < 0) continue;
    auto error = diags.error("P0217", directive.span);
    error << draft.name(region) << " is sharded twice";
    error.note("the other 'shard' is here", draft.distribution.expert_groups[other].span);
    return error;
  }
  ir::ExpertGroups shard;
  shard.groups = over.groups;
  shard.prov = draft.provenance.directive({"shard", diags.place(directive.span)});
  shard.span = directive.span;
  if (const auto* capacity = strategy::find_arg<strategy::Capacity>(directive, "capacity"))
    shard.bound =
        ir::RowBound{capacity->factor, capacity->overflow == "error", strategy::arg_span(directive, "capacity")};
  Claim all;
  for (const std::vector<int32_t>& group : over.groups) all.ranks.insert(all.ranks.end(), group.begin(), group.end());
  all.span = over.span;
  all.claimed_by = directive.span;
  for (ir::ChunkId region : selection.chunks) {
    draft.properties(region).shard = static_cast<int32_t>(draft.distribution.expert_groups.size());
    draft.claims.sharded[region.index] = all;
  }
  draft.distribution.expert_groups.push_back(std::move(shard));
  draft.expert_streams.push_back(over.stream);
  draft.experts_take.push_back(over.to_take);
  draft.note_cut(directive);
  return Status();
}

void take_groups(Resolution& draft) {
  const std::vector<ir::ExpertGroups> listed = std::move(draft.distribution.expert_groups);
  const std::vector<std::string> streams = std::move(draft.expert_streams);
  draft.distribution.expert_groups.clear();
  draft.expert_streams.clear();
  std::map<std::pair<int32_t, ir::Teams>, int32_t> known;  // by directive and groups
  for (size_t c = 0; c < draft.regions.size(); ++c) {
    int32_t& shard = draft.distribution.chunks[c].shard;
    if (shard < 0) continue;
    const auto of = static_cast<size_t>(shard);
    ir::ExpertGroups own = listed[of];
    if (draft.experts_take[of]) {
      std::set<int32_t> devices;
      for (int32_t m = 0; m < draft.step.num_microbatches; ++m) {
        const Claim& claim = draft.claims.at(ir::ChunkId(c), m);
        devices.insert(claim.ranks.begin(), claim.ranks.end());
      }
      std::erase_if(own.groups, [&](const std::vector<int32_t>& group) {
        return std::none_of(group.begin(), group.end(), [&](int32_t rank) { return devices.count(rank) > 0; });
      });
    }
    std::vector<int32_t>& ranks = draft.claims.sharded[c].ranks;
    ranks.clear();
    for (const std::vector<int32_t>& group : own.groups) ranks.insert(ranks.end(), group.begin(), group.end());
    const auto [at, fresh] = known.try_emplace({shard, own.groups}, static_cast<int32_t>(known.size()));
    shard = at->second;
    if (!fresh) continue;
    draft.distribution.expert_groups.push_back(std::move(own));
    draft.expert_streams.push_back(streams[of]);
  }
}

Status check_shards(const Resolution& draft, diag::Diagnostics& diags) {
  for (size_t c = 0; c < draft.regions.size(); ++c) {
    const int32_t shard = draft.distribution.chunks[c].shard;
    if (shard < 0) continue;
    const Claim& all = draft.claims.sharded[c];
    std::set<int32_t> used;
    const Claim* wrong = nullptr;
    for (int32_t m = 0; m < draft.step.num_microbatches; ++m) {
      const Claim& claim = draft.claims.at(ir::ChunkId(c), m);
      if (draft.claims.as_before(ir::ChunkId(c), m)) continue;
      used.insert(claim.ranks.begin(), claim.ranks.end());
      if (wrong == nullptr && covered(draft.distribution.expert_groups[shard].groups, claim.ranks) !=
                                  static_cast<int64_t>(claim.ranks.size()))
        wrong = &claim;
    }
    const bool idle =
        std::any_of(all.ranks.begin(), all.ranks.end(), [&](int32_t rank) { return used.count(rank) == 0; });
    if (wrong == nullptr && !idle) {
      PIPER_RETURN_IF_ERROR(
          check_tokens(draft, ir::ChunkId(c), draft.distribution.expert_groups[shard], all.span, diags));
      continue;
    }
    auto error = diags.error("P0215", all.span);
    error << "the groups of this 'shard' do not partition the devices of " << draft.regions[c].name;
    error.note("placed here", wrong != nullptr ? wrong->span : draft.claims.at(ir::ChunkId(c), 0).span);
    error.help(
        "list every device of the data group in exactly one group; where a region has several data groups, of each of "
        "them");
    return error;
  }
  return Status();
}

}  // namespace piper::directives
