// From a rank's instructions in issue order and what each touches: arena offsets, and the events that
// order its streams.
//
// Buffers of class kArena share bytes over time: a buffer takes its bytes at its first access in issue order and gives
// them back after its last; where that is a message, only when it is known to be through or several runs later, so that
// no run waits for it to have room. Two accesses that conflict (same buffer, or bytes handed from one buffer to
// another; at least one writes) on different streams are ordered by an event, unless streams and earlier events order
// them already (a vector clock per stream says so). Every event points forward in issue order, so none can close a
// cycle. Linear in instructions x streams.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "schemas/plan/plan.h"

namespace piper::emit {

struct Access {
  int32_t buffer = -1;
  bool reads = false, writes = false;
  bool operator==(const Access&) const = default;
};
// A rank's instructions in issue order.
struct Trace {
  struct Traced {
    plan::Instruction instruction;
    uint32_t first_access = 0;  // its accesses end where those of the next instruction begin
  };
  std::vector<Traced> instructions;
  std::vector<Access> accesses;
  std::vector<std::pair<uint32_t, uint32_t>>
      ordered;  // (instruction, an earlier one of another stream that the strategy puts before it), sorted

  size_t size() const { return instructions.size(); }
};

// All that decides a placement; ArenaAnswer is the placement. Ranks with the same work have equal questions.
struct ArenaQuestion {
  struct Step {
    int32_t stream = 0;
    bool is_run = false;
    uint32_t first_access = 0;
    bool operator==(const Step&) const = default;
  };
  struct Size {
    int64_t bytes = 0;
    bool in_arena = false;
    bool operator==(const Size&) const = default;
  };
  size_t num_streams = 0;
  std::vector<Step> steps;  // one an instruction, and the end
  std::vector<Access> accesses;
  std::vector<std::pair<uint32_t, uint32_t>> ordered;
  std::vector<Size> buffers;
  bool operator==(const ArenaQuestion&) const = default;

  std::span<const Access> accesses_of(size_t i) const {
    return {accesses.data() + steps[i].first_access, accesses.data() + steps[i + 1].first_access};
  }
};
struct ArenaAnswer {
  int64_t arena_bytes = 0;
  std::vector<int64_t> offsets;  // [buffer], 0 outside the arena
  std::vector<uint32_t> waits,
      first_wait;              // instruction i waits for waits[first_wait[i]] .. waits[first_wait[i + 1] - 1]
  std::vector<bool> recorded;  // [instruction]: an event follows it
};
struct PlacedArena {
  ArenaQuestion question;
  ArenaAnswer answer;
};

// Sets arena offsets and arena_bytes, and fills plan.instructions and plan.events (named after what they follow:
// event_names.h). `last` holds an earlier placement, which serves again where the question is the same; it becomes this
// one. `alignment`: of every buffer, in bytes, a multiple of OffsetAllocator's.
void place_buffers(plan::RankPlan& plan, Trace&& trace, int64_t alignment, PlacedArena& last);
// Offsets of the persistent buffers, one after the other within each class, in the order of their declarations.
void place_persistent(plan::RankPlan& plan, int64_t alignment);

}  // namespace piper::emit
