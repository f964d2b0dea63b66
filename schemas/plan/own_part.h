// Where a rank's own part of a collective is that divides a buffer over its ranks: what a reduce-scatter leaves, what
// an all-gather sends. Used by whatever follows or does them; the collectives themselves name no rank.
#pragma once

#include <algorithm>

#include "schemas/plan/plan.h"

namespace piper::plan {

// The rank's place in the communicator, 0 up.
inline int64_t position_in(const RankPlan& plan, int32_t communicator) {
  const auto& ranks = plan.communicators[static_cast<size_t>(communicator)].ranks;
  return std::find(ranks.begin(), ranks.end(), plan.rank) - ranks.begin();
}
inline BufferRange own_part(const ReduceScatter& reduce, int64_t position) {
  if (reduce.out.buffer >= 0) return reduce.out;
  return {reduce.data.buffer, reduce.data.offset + position * reduce.bytes()};
}
inline BufferRange own_part(const AllGather& gather, int64_t position) {
  if (gather.part.buffer >= 0) return gather.part;
  return {gather.data.buffer, gather.data.offset + position * gather.bytes()};
}
template <class Collective>
BufferRange own_part(const RankPlan& plan, const Collective& collective) {
  return own_part(collective, position_in(plan, collective.communicator));
}

}  // namespace piper::plan
