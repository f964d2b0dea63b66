// The counts of an all_to_all whose rows are counted, before anything is sent. Used by the collectives of CPUs and
// NCCL.
#pragma once

#include <cstdint>
#include <vector>

#include "schemas/base/status.h"

namespace piper::hal {

struct RowCounts {
  const std::vector<int32_t>& group;  // ranks, by position
  int32_t position = 0;               // of this rank in the group
  const int64_t* out = nullptr;       // rows to each position
  const int64_t* in = nullptr;        // rows from each position
  int64_t most = 0;                   // rows that fit into one part
};
// R0304: a count is negative, beyond its part, or the two of this rank's own position differ.
Status check_row_counts(const RowCounts& counts);

}  // namespace piper::hal
