// Offsets of a rank's buffers in its arena, in which they share bytes over time.
//
// Bytes that end in a message are kept for it (lives.h) where there is room: each for one pass more, then each for a
// second one, up to four, while what is alive stays within 1.01 of what is alive without. Where the arena then takes
// more than 1.02 of that, and more than it would need without, fewer passes are tried. What is not kept is free once
// the message is issued, and a run that takes it waits for the message.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/emit/data_order.h"
#include "compiler/emit/trace.h"
#include "schemas/plan/plan.h"

namespace piper::emit {

struct Arena {
  int64_t bytes = 0;
  std::vector<int64_t> offsets;  // [buffer], 0 for what is in no arena or never touched
};
// `alignment`: of every buffer, in bytes.
Arena place_arena(const plan::RankPlan& plan, const Trace& trace, const DataOrder& order, int64_t alignment);
// Nothing shares bytes; Arena::bytes is what is alive at one time.
Arena spread_arena(const plan::RankPlan& plan, const Trace& trace, const DataOrder& order, int64_t alignment);

}  // namespace piper::emit
