#include "compiler/directives/replicate.h"

#include <algorithm>

#include "compiler/directives/select.h"
#include "compiler/strategy/directive_args.h"

namespace piper::directives {

using strategy::ArgKind;

const strategy::DirectiveSpec& replicate_spec() {
  static const strategy::DirectiveSpec spec = {
      .name = "replicate",
      .summary = "keeps copies of the matched chunks on several devices and sums their gradients",
      .doc =
          "Gradients are summed over the replicas with the scale of the global mean, once per step after "
          "the last microbatch. Buckets are whole parameters of one group in reverse model order; a larger "
          "parameter is alone; a bucket communicates when its last gradient is ready.\n\n"
          "A chunk that lives on several groups, by microbatch, takes a replicate for each, with equal settings: its "
          "gradients are summed over the devices of all of them, and sharded over all of them.\n\n"
          "Each level of sharding implies the one before: shard_optimizer updates a shard per replica, "
          "shard_grads reduce-scatters after every microbatch, shard_params gathers parameters before use.",
      .args =
          {
              {"filter", ArgKind::kFilter, true, "", "the chunks, on all microbatches and passes", {}},
              {"devices", ArgKind::kDevices, true, "", "the group, in replica order; equal to that of place", {}},
              {"reduce_stream", ArgKind::kName, false, "dp_reduce", "the stream of gradient reductions", {}},
              {"gather_stream", ArgKind::kName, false, "dp_gather", "the stream of parameter gathers", {}},
              {"bucket_size",
               ArgKind::kMebibytes,
               false,
               "25",
               "upper size of one reduction; 0 = one bucket per parameter",
               {}},
              {"shard_optimizer",
               ArgKind::kFlag,
               false,
               "false",
               "each replica updates its shard of the parameters and gathers the rest",
               {}},
              {"shard_grads",
               ArgKind::kFlag,
               false,
               "false",
               "gradients are kept as shards and reduce-scattered after every microbatch",
               {}},
              {"shard_params",
               ArgKind::kFlag,
               false,
               "false",
               "parameters are kept as shards, gathered before use and freed after",
               {}},
              {"residency",
               ArgKind::kChoice,
               false,
               "use",
               "how long a gathered parameter stays: for one use, for a microbatch, for the step",
               {"use", "microbatch", "step"}},
              {"prefetch",
               ArgKind::kCount,
               false,
               "1",
               "how many computes ahead of its reader a bucket is gathered; 0 = right in front of it, with the least "
               "memory",
               {},
               0},
          },
      .example = "{op: replicate, filter: {PP: 0}, devices: [0, 1], bucket_size: 25}",
      .filter_forbids = {"MB", "PASS"},
  };
  return spec;
}

Result<ReplicateArgs> read_replicate(const strategy::Directive& directive) {
  ReplicateArgs args;
  PIPER_ASSIGN(args.filter, strategy::required_arg<strategy::Filter>(directive, "filter"));
  PIPER_ASSIGN(args.devices, strategy::required_arg<strategy::Devices>(directive, "devices"));
  args.reduce_stream = strategy::arg_or(directive, "reduce_stream", args.reduce_stream);
  args.gather_stream = strategy::arg_or(directive, "gather_stream", args.gather_stream);
  args.bucket_size = strategy::arg_or(directive, "bucket_size", args.bucket_size);
  args.shard_optimizer = strategy::arg_or(directive, "shard_optimizer", args.shard_optimizer);
  args.shard_grads = strategy::arg_or(directive, "shard_grads", args.shard_grads);
  args.shard_params = strategy::arg_or(directive, "shard_params", args.shard_params);
  args.residency = strategy::arg_or(directive, "residency", args.residency);
  args.prefetch = strategy::arg_or(directive, "prefetch", args.prefetch);
  return args;
}

namespace {

int64_t bucket_bytes(const ReplicateArgs& args) {
  return static_cast<int64_t>(std::min(args.bucket_size * 1024 * 1024, 0x1p62));
}

bool is_open(const Placement& placement, ir::ChunkId chunk, int32_t num_microbatches) {
  for (int32_t m = 0; m < num_microbatches; ++m)
    if (!placement.at(chunk, m).ranks.empty()) return false;
  return true;
}

ir::Replication replication_of(const ReplicateArgs& args, const strategy::Directive& directive, ir::Dag& dag,
                               const diag::Diagnostics& diags) {
  ir::Replication replication;
  replication.bucket_bytes = bucket_bytes(args);
  replication.stream = dag.intern_stream(args.reduce_stream);
  replication.gather_stream = dag.intern_stream(args.gather_stream);
  replication.sharded = args.shard_params      ? ir::Sharded::kParameters
                        : args.shard_grads     ? ir::Sharded::kGradients
                        : args.shard_optimizer ? ir::Sharded::kOptimizer
                                               : ir::Sharded::kNothing;
  replication.residency = args.residency == "step"         ? ir::Residency::kStep
                          : args.residency == "microbatch" ? ir::Residency::kMicrobatch
                                                           : ir::Residency::kUse;
  replication.prefetch = static_cast<int32_t>(args.prefetch);
  replication.prov = dag.provenance.directive({"replicate", diags.place(directive.span)});
  return replication;
}

bool same_settings(const ir::Replication& a, const ir::Replication& b) {
  return a.bucket_bytes == b.bucket_bytes && a.stream == b.stream && a.gather_stream == b.gather_stream &&
         a.sharded == b.sharded && a.residency == b.residency && a.prefetch == b.prefetch;
}

// Whether the chunk may be replicated so. One that lives on several groups, by microbatch, has a replicate for each of
// them.
Status check_chunk(ir::ChunkId chunk, const ReplicateArgs& args, const strategy::Directive& directive,
                   const ir::Replication& replication, const ir::Dag& dag, const Placement& placement,
                   diag::Diagnostics& diags) {
  const Claim* here = nullptr;
  const Claim* elsewhere = nullptr;
  bool overlaps = false;
  for (int32_t m = 0; m < dag.num_microbatches; ++m) {
    const Claim& claim = placement.at(chunk, m);
    if (claim.ranks.empty()) continue;
    if (claim.ranks == args.devices.ranks) {
      here = &claim;
      continue;
    }
    const bool shares = std::any_of(claim.ranks.begin(), claim.ranks.end(), [&](int32_t r) {
      return std::find(args.devices.ranks.begin(), args.devices.ranks.end(), r) != args.devices.ranks.end();
    });
    if (elsewhere == nullptr || (shares && !overlaps)) elsewhere = &claim;
    overlaps |= shares;
  }
  const diag::Span& other = placement.replicated[chunk.index];
  const std::string& name = dag.chunks[chunk.index].name;
  if (elsewhere != nullptr && (here == nullptr || overlaps)) {
    auto error = diags.error("P0215", args.devices.span);
    error << "'replicate' over devices " << strategy::to_string(args.devices) << ", but " << name << " is placed on "
          << (overlaps ? "partly different" : "different") << " ones";
    error.note("placed here", elsewhere->span);
    error.help("use the same list, in the same order, in both");
    return error;
  }
  if (other.line != 0 && (here == nullptr || here->replicated.line != 0)) {
    auto error = diags.error("P0217", directive.span);
    error << name << " is replicated twice";
    error.note("the other 'replicate' is here", other);
    return error;
  }
  if (other.line != 0 && !same_settings(dag.replication[chunk.index], replication)) {
    auto error = diags.error("P0217", directive.span);
    error << name << " is replicated on several groups, with different settings";
    error.note("the other 'replicate' is here", other);
    error.help("use the same streams, bucket size and sharding on all of them");
    return error;
  }
  return Status();
}

}  // namespace

Status bound_segments(const std::vector<ReplicateArgs>& replicates, const ir::Dag& dag, std::vector<int64_t>& bounds,
                      diag::Diagnostics& diags) {
  std::vector<size_t> devices(dag.chunks.size());
  for (const ReplicateArgs& args : replicates) {
    PIPER_ASSIGN(const Selection selection, select(dag, args.filter, diags));
    for (ir::ChunkId chunk : selection.chunks) {
      devices[chunk.index] += args.devices.ranks.size();
      if (devices[chunk.index] > 1) bounds[chunk.index] = bucket_bytes(args);
    }
  }
  return Status();
}

void replicate_unasked(ir::Dag& dag) {
  const ReplicateArgs defaults;
  for (size_t c = 0; c < dag.chunks.size(); ++c) {
    ir::Replication& replication = dag.replication[c];
    if (replication.prov.valid() || dag.groups_of(ir::ChunkId(c)).size() < 2) continue;
    replication.bucket_bytes = bucket_bytes(defaults);
    replication.stream = dag.intern_stream(defaults.reduce_stream);
    replication.prov = dag.chunk_prov[c];
  }
}

Status apply_replicate(const ReplicateArgs& args, const strategy::Directive& directive, ir::Dag& dag,
                       Placement& placement, diag::Diagnostics& diags) {
  PIPER_ASSIGN(const Selection selection, select(dag, args.filter, diags));
  const ir::Replication replication = replication_of(args, directive, dag, diags);
  for (ir::ChunkId chunk : selection.chunks)
    PIPER_RETURN_IF_ERROR(check_chunk(chunk, args, directive, replication, dag, placement, diags));
  for (ir::ChunkId chunk : selection.chunks) {
    placement.replicated[chunk.index] = directive.span;
    dag.replication[chunk.index] = replication;
    const bool open = is_open(placement, chunk, dag.num_microbatches);
    for (int32_t m = 0; m < dag.num_microbatches; ++m) {
      Claim& claim = placement.at(chunk, m);
      if (open) claim = {args.devices.ranks, args.devices.span, directive.span, "pp"};
      if (claim.ranks == args.devices.ranks) claim.replicated = directive.span;
    }
  }
  return Status();
}

}  // namespace piper::directives
