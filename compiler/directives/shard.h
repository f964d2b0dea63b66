// The `shard` directive: expert parallelism over a device group. Its spec, and what it says of regions.
#pragma once

#include "compiler/directives/resolution.h"
#include "compiler/strategy/directive_spec.h"

namespace piper::directives {

const strategy::DirectiveSpec& shard_spec();

// Partitions the experts of the matched regions, and places those that nothing else places. Errors: P0203, P0204,
// P0206, P0213 groups of unequal size or with a device in common, P0217 another shard on one of the regions.
Status resolve_shard(const strategy::Directive& directive, Resolution& draft, diag::Diagnostics& diags);

// For when every claim is in. Error P0215: of a region on several groups, by microbatch, each must consist of whole
// groups of its shard, and these must have no other devices.
Status check_shards(const Resolution& draft, diag::Diagnostics& diags);

}  // namespace piper::directives
