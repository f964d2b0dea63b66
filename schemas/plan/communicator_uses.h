// What a rank's plan asks of each of its communicators and channels. The runtime makes connections by it before the
// first step, the compiler predicts their memory (device_memory.h).
#pragma once

#include <vector>

#include "schemas/plan/plan.h"

namespace piper::plan {

// Whether a device's library of communication adds: in the order that it likes, in the type in which it is given.
// Anything else is messages and sums in position order.
bool added_by_library(const SumTypes& types, Summing summing);

struct CommunicatorUses {
  bool all_messages = false;  // from each member to each other
  bool all_reduce = false, reduce_scatter = false, all_gather = false;
};
// By communicator of the plan.
std::vector<CommunicatorUses> communicator_uses(const RankPlan& plan, Summing summing);

// Whether the host reads counts of rows within a step: exchanges without whole parts. A step on a GPU is then no single
// graph.
bool counts_rows(const RankPlan& plan);

struct ChannelUse {
  int32_t stream = -1;  // of its messages; -1: it has none
  bool sends = false;
};
// By channel of the plan.
std::vector<ChannelUse> channel_uses(const RankPlan& plan);

// Both.
struct CommunicationUses {
  std::vector<CommunicatorUses> communicators;
  std::vector<ChannelUse> channels;
};
CommunicationUses communication_uses(const RankPlan& plan, Summing summing);

}  // namespace piper::plan
