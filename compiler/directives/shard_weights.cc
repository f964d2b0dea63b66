#include "compiler/directives/shard_weights.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "compiler/strategy/directive_args.h"

namespace piper::directives {
namespace {

bool has(const std::vector<int32_t>& ranks, int32_t rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

// The cut over these groups, if there is one.
int32_t find_cut(const ir::Distribution& distribution, const ir::Teams& groups) {
  for (size_t c = 0; c < distribution.cuts.size(); ++c)
    if (distribution.cuts[c].groups == groups) return static_cast<int32_t>(c);
  return -1;
}

// Error P0246: a device shares samples with other devices in another cut.
Status check_alike(const ir::Teams& groups, const strategy::Directive& directive, const Resolution& draft,
                   diag::Diagnostics& diags) {
  for (const ir::Cut& other : draft.distribution.cuts)
    for (const std::vector<int32_t>& theirs : other.groups)
      for (const std::vector<int32_t>& ours : groups) {
        if (ours == theirs) continue;
        const auto both = std::find_if(ours.begin(), ours.end(), [&](int32_t rank) { return has(theirs, rank); });
        if (both == ours.end()) continue;
        auto error = diags.error("P0246", directive.span);
        error << "device " << *both << " shares samples with " << strategy::to_string(ours) << " here, with "
              << strategy::to_string(theirs) << " by another 'shard'";
        error.note("the other 'shard' is here", other.span);
        error.help("cut weights over the same groups of devices everywhere");
        return error;
      }
  return Status();
}

using GroupsOfDevices = std::unordered_map<int32_t, const std::vector<int32_t>*>;
GroupsOfDevices groups_of_devices(const ir::Cut& cut) {
  GroupsOfDevices group_of;
  for (const std::vector<int32_t>& group : cut.groups)
    for (const int32_t member : group) group_of.emplace(member, &group);
  return group_of;
}

bool has_any(const GroupsOfDevices& group_of, const std::vector<int32_t>& ranks) {
  return std::any_of(ranks.begin(), ranks.end(), [&](int32_t rank) { return group_of.contains(rank); });
}

// The devices of a list as replicas of the groups that they are in: where each group begins in the list.
Status group_claim(const ir::Cut& cut, const GroupsOfDevices& group_of, Claim& claim, const std::string& region,
                   diag::Diagnostics& diags) {
  std::vector<int32_t> ordered;
  const auto wrong = [&](const std::string& what) {
    auto error = diags.error("P0245", claim.span);
    error << region << " is on devices " << strategy::to_string(claim.ranks) << ", " << what;
    error.note("the 'shard' is here", cut.span);
    error.help("place a region on whole groups of devices that share samples, or on none of them");
    return error;
  };
  const std::unordered_set<int32_t> claimed(claim.ranks.begin(), claim.ranks.end());
  std::unordered_set<const void*> taken;  // groups
  for (const int32_t rank : claim.ranks) {
    const auto group = group_of.find(rank);
    if (group == group_of.end())
      return wrong("of which " + std::to_string(rank) + " shares samples with no other, as those of the 'shard' do");
    if (!taken.insert(group->second).second) continue;
    for (const int32_t member : *group->second)
      if (!claimed.contains(member))
        return wrong("without device " + std::to_string(member) + ", which shares the samples of " +
                     std::to_string(rank));
    ordered.insert(ordered.end(), group->second->begin(), group->second->end());
  }
  claim.ranks = std::move(ordered);
  claim.places = static_cast<int32_t>(cut.places());
  return Status();
}

}  // namespace

Status shard_weights(const strategy::Directive& directive, const RankGroups& over, Resolution& draft,
                     diag::Diagnostics& diags) {
  PIPER_ASSIGN(const auto filter, strategy::required_arg<strategy::Filter>(directive, "filter"));
  PIPER_ASSIGN(const Selection selection, draft.selector.select(filter, diags));
  if (over.groups.front().size() < 2)
    return diags.error("P0213", over.span) << "the groups of a 'shard' of weights need at least two devices";
  PIPER_RETURN_IF_ERROR(check_alike(over.groups, directive, draft, diags));
  ir::CutSeed seed;
  seed.prov = draft.provenance.directive({"shard", diags.place(directive.span)});
  seed.span = directive.span;
  const auto dim = strategy::arg_or_default<std::string>(directive, "dim");
  seed.dim = dim == "sequence"     ? ir::CutDim::kSequence
             : dim == "vocabulary" ? ir::CutDim::kVocabulary
                                   : ir::CutDim::kColumn;
  seed.keeps_wholes = strategy::arg_or_default<std::string>(directive, "gathered") == "kept";
  if (const auto* weights = strategy::find_arg<strategy::Globs>(directive, "weights")) seed.weights = weights->globs;
  seed.cut = find_cut(draft.distribution, over.groups);
  if (seed.cut < 0) {
    seed.cut = static_cast<int32_t>(draft.distribution.cuts.size());
    draft.distribution.cuts.push_back({over.groups, 0, seed.prov, directive.span});
    draft.cut_streams.push_back(over.stream);
  }
  for (ir::ChunkId region : selection.chunks) {
    for (const ir::CutSeed& other : draft.properties(region).seeds) {
      if (other.cut == seed.cut) continue;
      auto error = diags.error("P0246", directive.span);
      error << draft.name(region) << " is divided over two different lists of groups";
      error.note("the other 'shard' is here", other.span);
      error.help("list all groups in one directive");
      return error;
    }
    draft.properties(region).seeds.push_back(seed);
  }
  return Status();
}

namespace {

// Error P0245: a group of devices that run nothing.
Status check_all_run(const Resolution& draft, diag::Diagnostics& diags) {
  std::unordered_set<int32_t> run;
  for (size_t c = 0; c < draft.regions.size(); ++c)
    for (int32_t m = 0; m < draft.step.num_microbatches; ++m) {
      const std::vector<int32_t>& ranks = draft.claims.at(ir::ChunkId(c), m).ranks;
      run.insert(ranks.begin(), ranks.end());
    }
  for (const ir::Cut& cut : draft.distribution.cuts)
    for (const std::vector<int32_t>& group : cut.groups) {
      if (run.contains(group.front())) continue;  // regions run on whole groups
      auto error = diags.error("P0245", cut.span);
      error << "no region runs on devices " << strategy::to_string(group) << ", which share their samples here";
      error.help("leave the group out, or place a region on it");
      return error;
    }
  return Status();
}

}  // namespace

Status share_samples(Resolution& draft, diag::Diagnostics& diags) {
  std::vector<GroupsOfDevices> group_of;  // [cut]
  for (const ir::Cut& cut : draft.distribution.cuts) group_of.push_back(groups_of_devices(cut));
  for (size_t c = 0; c < draft.regions.size(); ++c) {
    const ir::ChunkId region(c);
    for (int32_t m = 0; m < draft.step.num_microbatches; ++m) {
      Claim& claim = draft.claims.at(region, m);
      for (const ir::CutSeed& seed : draft.properties(region).seeds) {
        const ir::Cut& cut = draft.distribution.cuts[static_cast<size_t>(seed.cut)];
        if (!claim.ranks.empty()) continue;
        for (const std::vector<int32_t>& group : cut.groups)
          claim.ranks.insert(claim.ranks.end(), group.begin(), group.end());
        claim.span = claim.claimed_by = seed.span;
      }
      for (size_t k = 0; k < group_of.size(); ++k) {
        if (!has_any(group_of[k], claim.ranks)) continue;
        PIPER_RETURN_IF_ERROR(group_claim(draft.distribution.cuts[k], group_of[k], claim, draft.name(region), diags));
        break;  // other cuts with these devices have the same groups
      }
      for (const ir::CutSeed& seed : draft.properties(region).seeds) {
        if (has_any(group_of[static_cast<size_t>(seed.cut)], claim.ranks)) continue;
        auto error = diags.error("P0245", seed.span);
        error << draft.name(region) << " is divided over devices on which it does not run";
        error.note("placed here", claim.span);
        error.help("list groups of the devices of each region that the filter names");
        return error;
      }
    }
  }
  return check_all_run(draft, diags);
}

}  // namespace piper::directives
