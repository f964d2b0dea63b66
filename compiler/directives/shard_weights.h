// What `shard` with `dim: column` or `dim: sequence` says of regions and of devices: tensor and sequence parallelism
// over groups of devices.
#pragma once

#include "compiler/directives/resolution.h"
#include "compiler/directives/shard.h"

namespace piper::directives {

// Cuts weights, or sequences, of the matched regions, and places those that nothing else places. Directives over the
// same groups are one cut.
Status shard_weights(const strategy::Directive& directive, const RankGroups& over, Resolution& draft,
                     diag::Diagnostics& diags);

// For when every claim is in: the devices of a claim that are of one group of a cut become one replica, place by place.
// Replicas are in the order of their first devices in the list. Errors P0245: a claim has some devices of a group, or
// devices that share samples and others that do not; P0246: two cuts have unlike groups with a device in common.
Status share_samples(Resolution& draft, diag::Diagnostics& diags);

}  // namespace piper::directives
