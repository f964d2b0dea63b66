#include "compiler/ir/state_layout.h"

#include <algorithm>

#include "schemas/base/check.h"

namespace piper::ir {

AccumulatorId StateLayout::find_accumulator(const std::vector<Chunk>& chunks, uint32_t parameter, ChunkId chunk) const {
  for (AccumulatorId use : parameter_uses[parameter])
    if (chunks[accumulators[use.index].chunk.index].region == chunks[chunk.index].region) return use;
  return {};
}

const std::vector<int32_t>& StateLayout::team_of(const Bucket& bucket, int32_t rank) const {
  for (const std::vector<int32_t>& team : bucket.teams)
    if (std::find(team.begin(), team.end(), rank) != team.end()) return team;
  PIPER_CHECK(false, "rank ", rank, " has no part in bucket ", bucket.name);
  return bucket.teams.front();
}

}  // namespace piper::ir
