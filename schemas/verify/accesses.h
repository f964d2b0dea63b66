// What an instruction reads and writes, as ranges of buffers. Used by the race rules and by
// `piper-plan explain`, which asks who wrote a buffer.
#pragma once

#include <cstdint>
#include <vector>

#include "schemas/plan/plan.h"

namespace piper::verify {

// Bytes at the end of an access that nothing wrote, after some that were, are rounding where they are fewer than this.
inline constexpr int64_t kRounding = 64;

struct Access {
  plan::BufferRange where;
  int64_t bytes = 0;
  bool reads = false, writes = false;
};

// Appends to `accesses`; empty ranges are left out. A workspace counts as written.
void collect_accesses(const plan::Bundle& bundle, const plan::RankPlan& plan, const plan::Action& action,
                      std::vector<Access>& accesses);

// What the executor reads of the rank when a step has ended: the loss, norms, counts.
std::vector<Access> reported_by(const plan::RankPlan& plan, const plan::Manifest& manifest);

}  // namespace piper::verify
