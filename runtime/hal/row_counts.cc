#include "runtime/hal/row_counts.h"

#include <string>

namespace piper::hal {

Status check_row_counts(const RowCounts& counts) {
  for (size_t other = 0; other < counts.group.size(); ++other) {
    const int64_t out = counts.out[other], in = counts.in[other];
    for (const int64_t rows : {out, in})
      if (rows < 0 || rows > counts.most)
        return Status::failure("R0304", std::to_string(rows) + " rows " + (rows == out ? "to" : "from") + " rank " +
                                            std::to_string(counts.group[other]) + ", where a part has room for 0 to " +
                                            std::to_string(counts.most));
    if (static_cast<int32_t>(other) == counts.position && out != in)
      return Status::failure(
          "R0304", "this rank sends itself " + std::to_string(out) + " rows and expects " + std::to_string(in));
  }
  return {};
}

}  // namespace piper::hal
