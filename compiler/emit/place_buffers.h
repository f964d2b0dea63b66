// From a rank's instructions in issue order and what each touches: arena offsets, and the events that
// order its streams. Called once a role, after its last instruction (role_emitter.h).
//
// One step after the other: what the accesses ask for (data_order.h); when each buffer needs its bytes (lives.h);
// where those lie (place_arena.h, pack.h); then a walk in issue order that adds events. Two accesses that conflict
// (same buffer, or bytes handed from one buffer to another; at least one writes) on different streams are ordered by
// an event, unless streams and earlier events order them already (stream_clocks.h). Every event points forward in
// issue order, so none can close a cycle. Linear in instructions x streams, except the search of offsets.
#pragma once

#include <cstdint>

#include "compiler/emit/trace.h"
#include "schemas/plan/plan.h"

namespace piper::emit {

// Sets arena offsets and arena_bytes, and fills plan.instructions and plan.events (named after what they follow:
// event_names.h). `alignment`: of every buffer, in bytes. `packs`: buffers share bytes over time; else each has bytes
// of its own, for which nothing waits, and arena_bytes is what is alive at one time, which no packing is below.
void place_buffers(plan::RankPlan& plan, const Trace& trace, int64_t alignment, bool packs = true);
// Offsets of the persistent buffers, one after the other within each class, in the order of their declarations.
void place_persistent(plan::RankPlan& plan, int64_t alignment);

}  // namespace piper::emit
