// Partitions the experts of chunks over device groups: on every rank of a group of D devices a chunk holds E/D of its
// E experts and works on the tokens of all D, which travel by all_to_all to their experts and back.
//
// Input level: chunked forward graph with normalised losses (every term is linear to the step's loss, so the tokens
// of other replicas need no other scale). Output level: the same for one rank of D: expert parameters are parts [E/D,
// ..] (Parameter::shards), ops between them are made again for E/D experts and the tokens of D sources, all_to_all
// ops carry activations, and each partitioned chunk is cut at them: every all_to_all is a chunk of its own
// (Chunk::exchange), between chunks of compute with the tags of the region. All results that other chunks read keep
// their types and values. It is after normalise_losses and before autodiff: derivatives of what it makes are
// ordinary, and the gradient of an expert's weight on its owner is that of all the group's tokens.
//
// Capacity form [E, C, H]: rows travel, C becomes D*C. Dense form (every expert on every token): tokens go to all
// members, a gate's columns to their owners; where experts are summed, each member makes its experts' share and the
// shares are added in position order. Grouped form (rows in the order of their experts): counts travel first, then
// rows in parts as large as the worst case, of which only the counted rows are sent; nothing is dropped. With a
// RowBound parts are as large as that, also in a group of one device. Where the members of a group are at several
// places of a cut, each has its part of a replica's tokens: graphs are of all of these here, and partition_tensors
// divides them. What cannot be cut is refused (find_expert_parts.h, find_grouped_parts.h). Run once per local batch:
// the structure depends on the model alone.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/chunks.h"
#include "compiler/ir/module.h"

namespace piper::passes {

struct ShardedChunks {
  ir::ExpertGroups shard;
  std::vector<ir::ChunkId> chunks;  // ascending
  int32_t across = -1;              // the members of a group are at several places of this cut; -1: at one
  int64_t places = 1;
};
// On one variant of the model; parameters and chunks name their shard by its position here. Returns [new chunk] -> the
// chunk it was cut from. Errors: P0225 a region without expert weights, P0241 experts that D does not divide, P0242 a
// bound for another form, P0333. On an error the graph is as it was.
Result<std::vector<ir::ChunkId>> partition_experts(ir::ChunkedGraph& chunked, const std::vector<ShardedChunks>& shards,
                                                   diag::Diagnostics& diags);

// On every variant, by the shards of the distribution, whose rows it refines.
Status partition_experts(ir::Module& module, diag::Diagnostics& diags);

}  // namespace piper::passes
