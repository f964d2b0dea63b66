// Where the state of training is: accumulators of gradients, the buckets in which they are reduced, updated and
// kept in parts, who saves what, which gather serves which reader. Three passes write it: passes/form_buckets the
// accumulators and buckets, insert_gathers the gathers, lay_out_state the rest. The emitter binds each device's buffers
// by it and decides nothing of its own.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/chunks.h"
#include "compiler/ir/distribution.h"
#include "compiler/ir/ids.h"
#include "schemas/plan/dtype.h"

namespace piper::ir {

using AccumulatorId = Id<struct AccumulatorTag>;  // StateLayout::accumulators
using BucketId = Id<struct BucketTag>;            // StateLayout::buckets

// The type of step scalars: norms, factors on gradients.
inline constexpr DType kScalarType = DType::kF32;

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
  int64_t bytes = 0;
};

// How much of a bucket each member of its team keeps.
enum class Kept : uint8_t { kWhole, kPart };
// A range of the bytes of a bucket, [begin, end).
struct Stretch {
  int64_t begin = 0, end = 0;
  int64_t bytes() const { return end - begin; }
};

struct Bucket {
  std::string name;
  GroupId group;
  TeamsId teams;          // partition of the group: who sums with whom, and keeps parts with whom
  int64_t team_size = 1;  // of each
  // Where parts are kept by several teams that sum with each other: the members that keep the same part, which add it
  // up after their teams have. Invalid: a team's sum is the whole one.
  TeamsId across;
  std::vector<AccumulatorId> accumulators;
  DType dtype = DType::kF32;     // of parameters, gradients and moments
  std::optional<DType> working;  // parameters are masters: programs read copies of this type
  bool cut = false;              // of parameters of which each place has a part (Parameter::cut)
  bool share = false;            // ... the whole, and an addend of the gradient (Parameter::share)
  bool matrices = false;         // of parameters that are updated as whole matrices: each lies in one part
  int64_t bytes = 0;  // of elements of `dtype`; a multiple of the team's size where a member keeps a part of anything
  // How much a member keeps of the optimizer's moments, and so updates; of summed gradients; of parameters between
  // steps. Gradients in parts want moments in parts, and parameters in parts want both. Gradients kept in parts are
  // added up whole within a microbatch and then reduced; parameters kept in parts are gathered for their readers.
  Kept moments = Kept::kWhole, gradients = Kept::kWhole, parameters = Kept::kWhole;
  Residency residency = Residency::kUse;
  int32_t prefetch = 1;                    // computes ahead of the reader
  uint32_t stream = 0, gather_stream = 0;  // of reductions, of gathers
  ProvId prov;

  int64_t part_bytes() const { return bytes / team_size; }
  Stretch part(int64_t position) const { return {position * part_bytes(), (position + 1) * part_bytes()}; }
  // What a member at the position in its team has of something.
  Stretch kept(Kept how, int64_t position) const { return how == Kept::kPart ? part(position) : Stretch{0, bytes}; }
  // How much a member keeps of the whole sum: what teams add up across is separate from what a member adds to.
  Kept summed() const { return across.valid() ? Kept::kPart : gradients; }
  // Masters are kept as far as they are updated: what readers need of the others' parts are working copies.
  Kept trained() const { return working ? moments : parameters; }
  DType read() const { return working.value_or(dtype); }
  int64_t elements(int64_t of_bytes) const { return of_bytes / dtype_bytes(dtype); }
  // The place of an element in what programs read, given that among gradients.
  int64_t read_offset(int64_t offset) const { return elements(offset) * dtype_bytes(read()); }
};

// The gradients of a bucket start at zero before this node: the first that adds to them on a microbatch.
struct Clear {
  BucketId bucket;
  int32_t microbatch = 0;
};

struct StateLayout {
  std::vector<Accumulator> accumulators;
  std::vector<std::vector<AccumulatorId>> parameter_uses;  // [parameter] in use order
  std::vector<Bucket> buckets;
  // (bucket, compute that reads it) -> the gather that serves it.
  std::map<std::pair<BucketId, NodeId>, NodeId> gathers;
  std::map<NodeId, std::vector<Clear>> clears;
  // [parameter], [buffer] the rank that writes it into saved weights; of buffers -1 where nothing reads it.
  std::vector<int32_t> parameter_owner, buffer_owner;
  std::vector<bool> unread;  // [parameter] no program reads it: its owner keeps it anyway

  // The accumulator of a parameter for a chunk's region, invalid where none.
  AccumulatorId find_accumulator(const std::vector<Chunk>& chunks, uint32_t parameter, ChunkId chunk) const;
  const Bucket& bucket_of(AccumulatorId use) const { return buckets[accumulators[use.index].bucket.index]; }
  // Bytes that a device has of a use's gradient once it is reduced, equal on all of them: the whole gradient, or a part
  // of the bucket, which then holds this gradient alone.
  int64_t summed_bytes(AccumulatorId use) const;
  // For a device whose first use of a parameter this is: whether it counts in the norm of all gradients, and saves,
  // what it has of the parameter.
  bool owns(const Distribution& distribution, AccumulatorId use, int32_t rank) const;
};

}  // namespace piper::ir
