#include "compiler/directives/shard.h"

#include <algorithm>
#include <set>

#include "compiler/directives/select.h"
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

Result<ShardArgs> read_shard(const strategy::Directive& directive) {
  ShardArgs args;
  PIPER_ASSIGN(args.filter, strategy::required_arg<strategy::Filter>(directive, "filter"));
  PIPER_ASSIGN(args.devices, strategy::required_arg<std::vector<strategy::Devices>>(directive, "devices"));
  args.stream = strategy::arg_or(directive, "stream", args.stream);
  if (const auto* value = strategy::find_arg<strategy::Capacity>(directive, "capacity")) args.capacity = *value;
  return args;
}

Status find_shard(const ShardArgs& args, const strategy::Directive& directive, const ir::Dag& dag,
                  std::vector<passes::ShardedChunks>& shards, diag::Diagnostics& diags) {
  PIPER_ASSIGN(const Selection selection, select(dag, args.filter, diags));
  passes::ShardedChunks found;
  found.shard.stream = args.stream;
  found.shard.span = directive.span;
  if (args.capacity)
    found.bound = passes::RowBound{args.capacity->factor, args.capacity->overflow == "error",
                                   strategy::arg_span(directive, "capacity")};
  std::vector<int32_t> seen;
  for (const strategy::Devices& group : args.devices) {
    if (group.ranks.size() != args.devices[0].ranks.size())
      return diags.error("P0213", group.span) << "the groups of a 'shard' must have one size";
    for (int32_t rank : group.ranks) {
      if (std::find(seen.begin(), seen.end(), rank) != seen.end())
        return diags.error("P0213", group.span) << "device " << rank << " is in two groups of this 'shard'";
      seen.push_back(rank);
    }
    found.shard.groups.push_back(group.ranks);
  }
  for (ir::ChunkId chunk : selection.chunks)
    for (const passes::ShardedChunks& other : shards)
      if (std::find(other.chunks.begin(), other.chunks.end(), chunk) != other.chunks.end()) {
        auto error = diags.error("P0217", directive.span);
        error << dag.chunks[chunk.index].name << " is sharded twice";
        error.note("the other 'shard' is here", other.shard.span);
        return error;
      }
  found.chunks = selection.chunks;
  shards.push_back(std::move(found));
  return Status();
}

Status apply_shard(const ShardArgs& args, const strategy::Directive& directive, const ir::Dag& dag,
                   Placement& placement, diag::Diagnostics& diags) {
  PIPER_ASSIGN(const Selection selection, select(dag, args.filter, diags));
  std::vector<int32_t> all;
  for (const strategy::Devices& group : args.devices) all.insert(all.end(), group.ranks.begin(), group.ranks.end());
  // How many devices of a list the groups that lie in it have; -1 where one lies in it in part.
  const auto covered = [&](const std::vector<int32_t>& placed) {
    int64_t count = 0;
    for (const strategy::Devices& group : args.devices) {
      const auto within = std::count_if(group.ranks.begin(), group.ranks.end(), [&](int32_t rank) {
        return std::find(placed.begin(), placed.end(), rank) != placed.end();
      });
      if (within != 0 && within != static_cast<int64_t>(group.ranks.size())) return int64_t{-1};
      count += within;
    }
    return count;
  };
  for (ir::ChunkId chunk : selection.chunks) {
    placement.sharded[chunk.index] = directive.span;
    std::set<int32_t> used;
    const Claim* wrong = nullptr;
    for (int32_t m = 0; m < dag.num_microbatches; ++m) {
      Claim& claim = placement.at(chunk, m);
      if (claim.ranks.empty()) {
        claim = {all, args.devices[0].span, directive.span, "pp"};
        continue;
      }
      if (placement.as_before(chunk, m)) continue;
      used.insert(claim.ranks.begin(), claim.ranks.end());
      if (wrong == nullptr && covered(claim.ranks) != static_cast<int64_t>(claim.ranks.size())) wrong = &claim;
    }
    const bool idle =
        !used.empty() && std::any_of(all.begin(), all.end(), [&](int32_t rank) { return used.count(rank) == 0; });
    if (wrong == nullptr && !idle) continue;
    auto error = diags.error("P0215", args.devices[0].span);
    error << "the groups of this 'shard' do not partition the devices of " << dag.chunks[chunk.index].name;
    error.note("placed here", wrong != nullptr ? wrong->span : placement.at(chunk, 0).span);
    error.help(
        "list every device of the data group in exactly one group; where a region has several data groups, of each of "
        "them");
    return error;
  }
  return Status();
}

}  // namespace piper::directives
