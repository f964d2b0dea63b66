#include "compiler/directives/replicate.h"

#include <algorithm>

#include "compiler/strategy/directive_args.h"

namespace piper::directives {

using strategy::ArgKind;

const strategy::DirectiveSpec& replicate_spec() {
  static const strategy::DirectiveSpec spec = {
      .name = "replicate",
      .summary =
          "keeps a copy of the matched chunks on each of several devices and sums their gradients "
          "(data parallelism)",
      .doc =
          "The gradients are summed over the replicas once per step, after the last microbatch. With `shard_grads` or "
          "`shard_params`, they are summed after every microbatch. The sum is the gradient of the loss over the whole "
          "batch. Gradients are summed in buckets. A bucket contains whole parameters, in the reverse order of the "
          "model. A parameter that is larger than `bucket_size` has its own bucket. A bucket is reduced as soon as its "
          "last gradient is ready.\n\nIf different groups run the same chunk for different microbatches, each group "
          "with several replicas needs a `replicate`, with the same settings. The gradients are then summed over the "
          "devices of all these groups, and sharding divides over all of them, too.\n\n`shard_optimizer`, "
          "`shard_grads` and `shard_params` are ZeRO-1, ZeRO-2 and ZeRO-3. Each includes the one before. With "
          "`shard_optimizer`, each replica updates its shard of the parameters. With `shard_grads`, each replica keeps "
          "its shard of the gradients. With `shard_params`, parameters are gathered before they are used. `parts_over` "
          "(HSDP) divides the replicas into groups, usually one for each node, and shards only within a group. "
          "All-gathers and reduce-scatters then stay inside the group. Once per step, the gradient shards are summed "
          "across the groups.",
      .args =
          {
              {"filter", ArgKind::kFilter, true, "", "the chunks; may name neither microbatches nor passes", {}},
              {"devices",
               ArgKind::kDevices,
               true,
               "",
               "the devices, in the order of their replica "
               "indices; the same as in `place`",
               {}},
              {"reduce_stream",
               ArgKind::kName,
               false,
               "dp_reduce",
               "the stream on which gradients are "
               "reduced",
               {}},
              {"gather_stream",
               ArgKind::kName,
               false,
               "dp_gather",
               "the stream on which parameters are "
               "gathered",
               {}},
              {"bucket_size",
               ArgKind::kMebibytes,
               false,
               "25",
               "maximum size of a bucket; with 0, each parameter has its own bucket",
               {}},
              {"shard_optimizer",
               ArgKind::kFlag,
               false,
               "false",
               "ZeRO-1: each replica updates its shard of the parameters and gathers the other shards",
               {}},
              {"shard_grads",
               ArgKind::kFlag,
               false,
               "false",
               "ZeRO-2: each replica keeps its shard of the gradients; gradients are reduce-scattered "
               "after every microbatch",
               {}},
              {"shard_params",
               ArgKind::kFlag,
               false,
               "false",
               "ZeRO-3: each replica keeps its shard of the parameters; parameters are gathered before use "
               "and freed afterwards",
               {}},
              {"parts_over",
               ArgKind::kRankGroups,
               false,
               "",
               "HSDP: groups of replicas, given as axes of the mesh or as lists. Each group keeps one full "
               "set of shards. Gradients are reduce-scattered within a group and all-reduced across "
               "groups. Without this key, all replicas together keep one set",
               {}},
              {"whole_below",
               ArgKind::kMebibytes,
               false,
               "0.25",
               "only with `shard_params`: a bucket stays whole on every device if it has only one-dimensional "
               "parameters (norms, biases) that are each smaller than this. Such a bucket is not gathered. With 0, no "
               "bucket stays whole",
               {}},
              {"residency",
               ArgKind::kChoice,
               false,
               "use",
               "how long a gathered parameter stays in memory: for one use, for one microbatch, or for the "
               "whole step",
               {"use", "microbatch", "step"}},
              {"prefetch",
               ArgKind::kCount,
               false,
               "1",
               "how early a bucket is gathered: the number of computations between the all-gather and the computation "
               "that reads the bucket. With 0, a bucket is gathered right before it is read, which needs the least "
               "memory. A bucket that is still in memory is not gathered again",
               {},
               0},
          },
      .example = "{op: replicate, filter: {PP: 0}, devices: [0, 1], bucket_size: 25}",
      .filter_forbids = {"MB", "PASS"},
      .gives_devices = true,
  };
  return spec;
}

namespace {

int64_t in_bytes(double mebibytes) { return static_cast<int64_t>(std::min(mebibytes * 1024 * 1024, 0x1p62)); }

// What the directive asks for. Its streams are named and its origin is noted though it may turn out to be wrong: then
// the draft is not taken over.
ir::Replication read_replication(const strategy::Directive& directive, Resolution& draft,
                                 const diag::Diagnostics& diags) {
  const auto stream = [&](const char* name) {
    return draft.distribution.intern_stream(strategy::arg_or_default<std::string>(directive, name));
  };
  const auto flag = [&](const char* name) { return strategy::arg_or_default<bool>(directive, name); };
  const auto residency = strategy::arg_or_default<std::string>(directive, "residency");
  ir::Replication r;
  r.bucket_bytes = in_bytes(strategy::arg_or_default<double>(directive, "bucket_size"));
  r.stream = stream("reduce_stream");
  r.gather_stream = stream("gather_stream");
  r.sharded = flag("shard_params")      ? ir::Sharded::kParameters
              : flag("shard_grads")     ? ir::Sharded::kGradients
              : flag("shard_optimizer") ? ir::Sharded::kOptimizer
                                        : ir::Sharded::kNothing;
  if (r.sharded == ir::Sharded::kParameters)
    r.whole_below = in_bytes(strategy::arg_or_default<double>(directive, "whole_below"));
  r.residency = residency == "step"         ? ir::Residency::kStep
                : residency == "microbatch" ? ir::Residency::kMicrobatch
                                            : ir::Residency::kUse;
  r.prefetch = static_cast<int32_t>(strategy::arg_or_default<int64_t>(directive, "prefetch"));
  r.prov = draft.provenance.directive({"replicate", diags.place(directive.span)});
  return r;
}

// The groups of `parts_over` within the devices, in the devices' order; none where all devices are one group.
Result<ir::Teams> read_parts(const strategy::Directive& directive, const strategy::Devices& devices,
                             ir::Sharded sharded, diag::Diagnostics& diags) {
  const auto* over = strategy::find_arg<strategy::RankGroups>(directive, "parts_over");
  if (over == nullptr) return ir::Teams();
  const diag::Span span = strategy::arg_span(directive, "parts_over");
  if (sharded == ir::Sharded::kNothing)
    return diags.error("P0244", span).help("add shard_optimizer, shard_grads or shard_params: true")
           << "'parts_over' has no effect without 'shard_optimizer', 'shard_grads' or 'shard_params'";
  ir::Teams groups;
  size_t members = 0;
  for (const strategy::Devices& group : over->groups) {
    std::vector<int32_t> here;
    for (const int32_t rank : devices.ranks)
      if (std::find(group.ranks.begin(), group.ranks.end(), rank) != group.ranks.end()) here.push_back(rank);
    members += here.size();
    if (!here.empty()) groups.push_back(std::move(here));
  }
  const bool equal = std::all_of(groups.begin(), groups.end(), [&](const std::vector<int32_t>& group) {
    return group.size() == groups[0].size() && group.size() > 1;
  });
  if (!equal || members != devices.ranks.size()) {
    auto error = diags.error("P0253", span);
    error << "'parts_over' does not divide the replicas " << strategy::to_string(devices)
          << " into groups of equal size with at least two devices";
    std::string found;
    for (const std::vector<int32_t>& group : groups) found += (found.empty() ? "" : ", ") + strategy::to_string(group);
    error.note(groups.empty() ? "no rank of its groups is among them" : "of them its groups hold " + found);
    error.help(
        "name an axis of the mesh along which these replicas differ, or list groups that contain each of them once");
    return error;
  }
  if (groups.size() == 1) groups.clear();
  return groups;
}

// Each of several groups of replicas has parts in groups of its own.
bool same_settings(ir::Replication a, const ir::Replication& b) {
  a.prov = b.prov;
  if (a.parts_over.empty() == b.parts_over.empty()) a.parts_over = b.parts_over;
  return a == b;
}

// Whether the region may be replicated so. One that lives on several groups, by microbatch, has a replicate for each.
Status check_region(ir::ChunkId region, const strategy::Devices& devices, const strategy::Directive& directive,
                    const ir::Replication& asked, const Resolution& draft, diag::Diagnostics& diags) {
  const Claim* here = nullptr;
  const Claim* elsewhere = nullptr;
  bool overlaps = false;
  for (int32_t m = 0; m < draft.step.num_microbatches; ++m) {
    const Claim& claim = draft.claims.at(region, m);
    if (claim.ranks.empty()) continue;
    if (claim.ranks == devices.ranks) {
      here = &claim;
      continue;
    }
    const bool shares = std::any_of(claim.ranks.begin(), claim.ranks.end(), [&](int32_t r) {
      return std::find(devices.ranks.begin(), devices.ranks.end(), r) != devices.ranks.end();
    });
    if (elsewhere == nullptr || (shares && !overlaps)) elsewhere = &claim;
    overlaps |= shares;
  }
  const diag::Span& other = draft.claims.replicated_by[region.index];
  if (elsewhere != nullptr && (here == nullptr || overlaps)) {
    auto error = diags.error("P0215", devices.span);
    error << "'replicate' over devices " << strategy::to_string(devices) << ", but " << draft.name(region)
          << " is placed on " << (overlaps ? "a partly different" : "a different") << " list of devices";
    error.note("placed here", elsewhere->span);
    error.help("use the same list, in the same order, in both");
    return error;
  }
  if (other.line != 0 && (here == nullptr || here->replicated_by.line != 0)) {
    auto error = diags.error("P0217", directive.span);
    error << draft.name(region) << " is replicated twice";
    error.note("the other 'replicate' is here", other);
    return error;
  }
  if (other.line != 0 && !same_settings(draft.distribution.chunks[region.index].replication, asked)) {
    auto error = diags.error("P0217", directive.span);
    error << draft.name(region) << " is replicated on several groups, with different settings";
    error.note("the other 'replicate' is here", other);
    error.help("use the same streams, bucket size and sharding on all of them");
    return error;
  }
  return Status();
}

}  // namespace

Status resolve_replicate(const strategy::Directive& directive, Resolution& draft, diag::Diagnostics& diags) {
  PIPER_ASSIGN(const auto filter, strategy::required_arg<strategy::Filter>(directive, "filter"));
  PIPER_ASSIGN(const auto devices, strategy::required_arg<strategy::Devices>(directive, "devices"));
  PIPER_ASSIGN(const Selection selection, draft.selector.select(filter, diags));
  ir::Replication replication = read_replication(directive, draft, diags);
  PIPER_ASSIGN(replication.parts_over, read_parts(directive, devices, replication.sharded, diags));
  for (ir::ChunkId region : selection.chunks)
    PIPER_RETURN_IF_ERROR(check_region(region, devices, directive, replication, draft, diags));
  for (ir::ChunkId region : selection.chunks) {
    draft.claims.replicated_by[region.index] = directive.span;
    ir::ChunkProperties& row = draft.properties(region);
    ir::Teams parts_over = std::move(row.replication.parts_over);  // of the region's other groups of replicas
    row.replication = replication;
    row.replication.parts_over.insert(row.replication.parts_over.begin(), parts_over.begin(), parts_over.end());
    // Segments are there for reductions that begin early: one device has none.
    draft.replicas[region.index] += static_cast<int64_t>(devices.ranks.size());
    if (draft.replicas[region.index] > 1) row.segment_bytes = replication.bucket_bytes;
    const bool open = draft.claims.is_open(region);
    for (int32_t m = 0; m < draft.step.num_microbatches; ++m) {
      Claim& claim = draft.claims.at(region, m);
      if (open) claim = {.ranks = devices.ranks, .span = devices.span, .claimed_by = directive.span};
      if (claim.ranks == devices.ranks) claim.replicated_by = directive.span;
    }
  }
  draft.note_cut(directive);
  return Status();
}

void replicate_unasked(Resolution& draft) {
  for (size_t c = 0; c < draft.regions.size(); ++c) {
    ir::ChunkProperties& row = draft.distribution.chunks[c];
    // Devices that share samples add up what each has of some gradients.
    if (row.replication.prov.valid() || (draft.distribution.groups_of(ir::ChunkId(c)).size() < 2 && row.seeds.empty()))
      continue;
    row.replication.bucket_bytes = in_bytes(strategy::default_of<double>(replicate_spec(), "bucket_size"));
    row.replication.stream =
        draft.distribution.intern_stream(strategy::default_of<std::string>(replicate_spec(), "reduce_stream"));
    row.replication.prov = row.placed_by;
  }
}

}  // namespace piper::directives
