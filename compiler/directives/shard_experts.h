// What `shard` with `dim: expert` says of regions: expert parallelism over groups of devices.
#pragma once

#include "compiler/directives/resolution.h"
#include "compiler/directives/shard.h"

namespace piper::directives {

// Partitions the experts of the matched regions, and places those that nothing else places. Error P0217: another shard
// of experts on one of the regions.
Status shard_experts(const strategy::Directive& directive, const RankGroups& over, Resolution& draft,
                     diag::Diagnostics& diags);

// For when every claim is in: regions take the groups of their own devices, where a directive lists groups for that
// (RankGroups::to_take).
void take_groups(Resolution& draft);

// After that. Error P0215: of a region on several groups, by microbatch, each must consist of whole
// groups of its shard, and these must have no other devices. Error P0259: a group has devices of several
// places, and not all of them, or nothing divides the sequence over these.
Status check_shards(const Resolution& draft, diag::Diagnostics& diags);

}  // namespace piper::directives
