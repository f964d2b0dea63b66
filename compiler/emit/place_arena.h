// Offsets of a rank's buffers in its arena, in which they share bytes over time.
//
// Bytes that end in a message are kept for it as long as that costs little (lives.h): with the patience of 4, 2, or 1
// runs, the first with which the arena needs at most 1.02 of the bytes that are alive without any, or no more than it
// would need without; else they are free once the message is issued, and a run that takes them waits for it.
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

}  // namespace piper::emit
