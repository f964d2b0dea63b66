#include "compiler/ir/state_layout.h"

namespace piper::ir {

AccumulatorId StateLayout::find_accumulator(const std::vector<Chunk>& chunks, uint32_t parameter, ChunkId chunk) const {
  for (AccumulatorId use : parameter_uses[parameter])
    if (chunks[accumulators[use.index].chunk.index].region == chunks[chunk.index].region) return use;
  return {};
}

int64_t StateLayout::summed_bytes(AccumulatorId use) const {
  const Bucket& bucket = bucket_of(use);
  return bucket.moments == Kept::kWhole ? accumulators[use.index].bytes : bucket.part_bytes();
}

bool StateLayout::owns(const Distribution& distribution, AccumulatorId use, int32_t rank) const {
  const Accumulator& a = accumulators[use.index];
  const Bucket& bucket = bucket_of(use);
  if (!bucket.cut && !bucket.share && distribution.place_of_rank(bucket.group, rank) > 0)
    return false;                                                // it has what place 0 has
  if (bucket.moments == Kept::kPart && a.use > 0) return false;  // the groups of later uses have the same parts
  if (bucket.moments == Kept::kPart) return !bucket.across.valid() || distribution.is_front(bucket.across, rank);
  const Teams& teams = distribution.teams[bucket.teams.index];
  if (bucket.cut) return a.use == 0 && distribution.is_front(bucket.teams, rank);  // the groups of later uses, likewise
  const auto places = static_cast<size_t>(distribution.places(bucket.group));
  if (teams.size() == (bucket.share ? 1 : places))
    return parameter_owner[a.parameter] == rank;  // not of experts: all members have the same
  return distribution.is_front(bucket.teams, rank);
}

}  // namespace piper::ir
