// The `shard` directive: expert parallelism over a device group. Its spec and typed arguments.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/directives/placement.h"
#include "compiler/passes/partition_experts.h"
#include "compiler/strategy/directive_spec.h"
#include "compiler/strategy/strategy.h"
#include "schemas/base/status.h"

namespace piper::directives {

struct ShardArgs {
  strategy::Filter filter;
  std::vector<strategy::Devices> devices;
  std::string stream = "ep";
  std::optional<strategy::Capacity> capacity;
};
const strategy::DirectiveSpec& shard_spec();
// Unpacks a loaded directive; defaults filled in. Error P0206: a required argument is missing.
Result<ShardArgs> read_shard(const strategy::Directive& directive);

// The chunks that a shard is about, and its groups. Adds to `shards`; an earlier shard on one of the chunks is error
// P0217. Errors: P0203, P0204, P0213 groups of unequal size or with a device in common.
Status find_shard(const ShardArgs& args, const strategy::Directive& directive, const ir::Dag& dag,
                  std::vector<passes::ShardedChunks>& shards, diag::Diagnostics& diags);
// Places the matched chunks that nothing places; what is placed must be on the same devices (P0215). Of a chunk on
// several groups, by microbatch, each must consist of whole groups of the shard.
Status apply_shard(const ShardArgs& args, const strategy::Directive& directive, const ir::Dag& dag,
                   Placement& placement, diag::Diagnostics& diags);

}  // namespace piper::directives
