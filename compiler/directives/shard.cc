#include "compiler/directives/shard.h"

#include <algorithm>
#include <set>

#include "compiler/strategy/directive_args.h"

namespace piper::directives {

using strategy::ArgKind;

const strategy::DirectiveSpec& shard_spec() {
  static const strategy::DirectiveSpec spec = {
      .name = "shard",
      .summary = "partitions the experts of the matched region over devices",
      .doc =
          "The expert dimension of the matched weights is partitioned; tokens travel to their experts and "
          "back by all_to_all at the region's boundary, forward and backward. The result equals the "
          "unsharded mixture of experts; expert gradients are not reduced over the group.\n\n"
          "Only weights that the recognised form indexes by expert are partitioned; others of the region "
          "stay replicated. A region without an expert dimension is an error.\n\n"
          "With `capacity` an expert takes at most ceil(factor * pairs / experts) pairs of a token and a chosen "
          "expert, of the pairs "
          "that one rank has in one microbatch, the first in the order of tokens and, for a token, of its choices; in "
          "a group of one "
          "device too. A pair that is over counts as if its expert gave zeros, forward and backward; the weights of "
          "the others stay as they "
          "are. `drop`: the step's log line and the progress line say how many pairs of the whole step were dropped. "
          "`error`: the run "
          "stops at the first one (R0406). Memory and messages are bounded by the capacity. It is for experts in the "
          "grouped form; for others it is an error (P0242).",
      .args =
          {
              {"filter", ArgKind::kFilter, true, "", "the regions that hold experts", {}},
              {"devices",
               ArgKind::kDeviceGroups,
               true,
               "",
               "one group, or a list of equal groups that partition the data group, or each of them where microbatches "
               "have several",
               {}},
              {"stream", ArgKind::kName, false, "ep", "the stream of the exchanges", {}},
              {"capacity",
               ArgKind::kCapacity,
               false,
               "",
               "bound of tokens per expert as a factor on the mean; without it nothing is dropped; overflow is `drop` "
               "where left out",
               {}},
          },
      .example = "{op: shard, filter: {EP: \"*\"}, devices: [0, 1], stream: ep}",
      .filter_forbids = {"MB", "PASS"},
  };
  return spec;
}

namespace {

// The groups as lists of ranks: of one size, without a device in common.
Result<std::vector<std::vector<int32_t>>> read_groups(const std::vector<strategy::Devices>& devices,
                                                      diag::Diagnostics& diags) {
  std::vector<std::vector<int32_t>> groups;
  std::vector<int32_t> seen;
  for (const strategy::Devices& group : devices) {
    if (group.ranks.size() != devices[0].ranks.size())
      return diags.error("P0213", group.span) << "the groups of a 'shard' must have one size";
    for (int32_t rank : group.ranks) {
      if (std::find(seen.begin(), seen.end(), rank) != seen.end())
        return diags.error("P0213", group.span) << "device " << rank << " is in two groups of this 'shard'";
      seen.push_back(rank);
    }
    groups.push_back(group.ranks);
  }
  return groups;
}

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

}  // namespace

Status resolve_shard(const strategy::Directive& directive, Resolution& draft, diag::Diagnostics& diags) {
  PIPER_ASSIGN(const auto filter, strategy::required_arg<strategy::Filter>(directive, "filter"));
  PIPER_ASSIGN(const auto devices, strategy::required_arg<std::vector<strategy::Devices>>(directive, "devices"));
  PIPER_ASSIGN(const Selection selection, draft.selector.select(filter, diags));
  PIPER_ASSIGN(std::vector<std::vector<int32_t>> groups, read_groups(devices, diags));
  for (ir::ChunkId region : selection.chunks) {
    const int32_t other = draft.properties(region).shard;
    if (other < 0) continue;
    auto error = diags.error("P0217", directive.span);
    error << draft.name(region) << " is sharded twice";
    error.note("the other 'shard' is here", draft.distribution.expert_groups[other].span);
    return error;
  }
  ir::ExpertGroups shard;
  shard.prov = draft.provenance.directive({"shard", diags.place(directive.span)});
  shard.span = directive.span;
  if (const auto* capacity = strategy::find_arg<strategy::Capacity>(directive, "capacity"))
    shard.bound =
        ir::RowBound{capacity->factor, capacity->overflow == "error", strategy::arg_span(directive, "capacity")};
  Claim all;
  for (const std::vector<int32_t>& group : groups) all.ranks.insert(all.ranks.end(), group.begin(), group.end());
  all.span = devices[0].span;
  all.claimed_by = directive.span;
  shard.groups = std::move(groups);
  for (ir::ChunkId region : selection.chunks) {
    draft.properties(region).shard = static_cast<int32_t>(draft.distribution.expert_groups.size());
    draft.claims.sharded[region.index] = all;
  }
  draft.distribution.expert_groups.push_back(std::move(shard));
  draft.expert_streams.push_back(strategy::arg_or_default<std::string>(directive, "stream"));
  draft.note_cut(directive);
  return Status();
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
    if (wrong == nullptr && !idle) continue;
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
