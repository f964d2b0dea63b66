// The counts of an all_to_all whose rows are counted, before anything is sent.
#pragma once

#include <vector>

#include "schemas/base/status.h"

namespace piper::hal {

struct RowCounts {
  const std::vector<int32_t>& group;  // ranks, by position
  int32_t position = 0;               // the own one
  const int64_t* out = nullptr;       // rows to each position
  const int64_t* in = nullptr;        // rows from each
  int64_t most = 0;                   // for which a part has room
};
// R0304: a count is negative, beyond its part, or the two of the own position differ.
Status check_row_counts(const RowCounts& counts);

}  // namespace piper::hal
