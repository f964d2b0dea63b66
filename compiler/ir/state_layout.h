// Where the state of training stands: accumulators of gradients, and the buckets in which they are reduced, updated and
// sharded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/chunks.h"
#include "compiler/ir/distribution.h"
#include "compiler/ir/ids.h"

namespace piper::ir {

using AccumulatorId = Id<struct AccumulatorTag>;  // StateLayout::accumulators
using BucketId = Id<struct BucketTag>;            // StateLayout::buckets

// The gradient of one parameter as used by one region. Where the region runs on several device groups, by microbatch,
// `group` is all of them together.
struct Accumulator {
  uint32_t parameter = 0;       // index into Graph::parameters
  ChunkId chunk;                // the region's first chunk that adds to it; its backward is the last of them
  std::vector<ChunkId> chunks;  // all of them
  GroupId group;
  uint32_t use = 0;  // position among the parameter's accumulators
  BucketId bucket;
  int64_t offset = 0;  // bytes, inside the bucket
};
struct Bucket {
  std::string name;
  GroupId group;
  std::vector<std::vector<int32_t>>
      teams;  // partition of the group: who sums with whom; positions are the order of the sum
  std::vector<AccumulatorId> accumulators;
  int64_t bytes = 0;  // a multiple of the team's size where anything is sharded
  Sharded sharded = Sharded::kNothing;
  Residency residency = Residency::kUse;
  int32_t prefetch = 1;                    // computes ahead of the reader
  uint32_t stream = 0, gather_stream = 0;  // of reductions, of gathers
  ProvId prov;
};

struct StateLayout {
  std::vector<Accumulator> accumulators;
  std::vector<std::vector<AccumulatorId>> parameter_uses;  // [parameter] in use order
  std::vector<Bucket> buckets;

  // The accumulator of a parameter for a chunk's region, invalid where none.
  AccumulatorId find_accumulator(const std::vector<Chunk>& chunks, uint32_t parameter, ChunkId chunk) const;
  // The team of a bucket that holds the rank.
  const std::vector<int32_t>& team_of(const Bucket& bucket, int32_t rank) const;
};

}  // namespace piper::ir
