// What the communication of a plan costs on CPU ranks: bytes sent, scratch memory. The compiler
// predicts with it, the runtime allocates by it. 0 for every instruction that has no such cost.
#pragma once

#include "schemas/plan/plan.h"

namespace piper::plan {

// Bytes that leave this rank. Of counted rows: the most that can.
int64_t sent_bytes(const RankPlan& plan, const Action& action);
// Scratch of one instruction; a stream owns one block, as large as its largest instruction needs.
int64_t collective_scratch_bytes(const RankPlan& plan, const Action& action);

}  // namespace piper::plan
