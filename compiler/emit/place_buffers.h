// From a rank's instructions in issue order and what each touches: arena offsets, and the events that
// order its streams.
//
// Buffers of class kArena share bytes over time: a buffer takes its bytes at its first access in issue order and gives them back after its
// last; where that is a message, only when it is known to be through or several runs later, so that no run waits for it to have room. Two accesses that conflict (same buffer, or bytes handed from one buffer to another; at least one writes) on different streams are ordered by an
// event, unless streams and earlier events order them already (a vector clock per stream says so). Every event points forward in issue
// order, so none can close a cycle. Linear in instructions x streams.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schemas/plan/plan.h"

namespace piper::emit {

struct Access {
  int32_t buffer = -1;
  bool reads = false, writes = false;
};
struct TracedInstruction {
  plan::Instruction instruction;
  std::vector<Access> accesses;
  std::vector<uint32_t> after;      // instructions of other streams that the strategy orders before it
  std::string name;                 // of the event recorded after it, unique on the rank
};

// Sets arena offsets and arena_bytes, and fills plan.instructions and plan.events.
void place_buffers(plan::RankPlan& plan, std::vector<TracedInstruction>&& traced);
// Offsets of the persistent buffers, one after the other within each class, in the order of their declarations.
void place_persistent(plan::RankPlan& plan);

}  // namespace piper::emit
