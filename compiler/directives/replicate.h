// The `replicate` directive: data parallelism over a device group. Its spec and typed arguments.
#pragma once

#include <string>
#include <vector>

#include "compiler/directives/placement.h"
#include "compiler/ir/dag.h"
#include "compiler/strategy/directive_spec.h"
#include "compiler/strategy/strategy.h"
#include "schemas/base/status.h"

namespace piper::directives {

struct ReplicateArgs {
  strategy::Filter filter;
  strategy::Devices devices;
  std::string reduce_stream = "dp_reduce";
  std::string gather_stream = "dp_gather";
  double bucket_size = 25;  // mebibytes
  bool shard_optimizer = false;
  bool shard_grads = false;
  bool shard_params = false;
  std::string residency = "use";
  int64_t prefetch = 1;
};
const strategy::DirectiveSpec& replicate_spec();
// Unpacks a loaded directive; defaults filled in. Error P0206: a required argument is missing.
Result<ReplicateArgs> read_replicate(const strategy::Directive& directive);

// How many bytes of parameters a segment of a chunk may first use (passes/cut_segments.h): the bucket size where
// `replicates` name several devices for the chunk, in one group or several, else `bounds` is left as it is. Errors:
// P0203, P0204.
Status bound_segments(const std::vector<ReplicateArgs>& replicates, const ir::Dag& dag, std::vector<int64_t>& bounds,
                      diag::Diagnostics& diags);

// Sets how the matched chunks' gradients are reduced; places the chunks that no `place` matches. A chunk that lives on
// several groups, by microbatch, takes one replicate for each group, with equal settings. Errors: P0203, P0204, P0215
// no group of a chunk is this one, P0217 two replicates on one group, or different settings.
Status apply_replicate(const ReplicateArgs& args, const strategy::Directive& directive, ir::Dag& dag,
                       Placement& placement, diag::Diagnostics& diags);

// Chunks on several single devices, by microbatch, that no replicate names: their gradients are summed as its defaults
// say. For when the placement is settled.
void replicate_unasked(ir::Dag& dag);

}  // namespace piper::directives
