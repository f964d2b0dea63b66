// All forwards, then all backwards (Huang et al., "GPipe", 2019). The backwards run in the order
// of the forwards, so that gradient sums keep the microbatch order.
#include "compiler/strategy/families/rows.h"

namespace piper::strategy {

std::vector<Row> gpipe_rows(const FamilyShape& shape) {
  std::vector<Row> rows(shape.ranks);
  for (int32_t r = 0; r < shape.ranks; ++r) {
    for (int32_t m = 0; m < shape.microbatches; ++m) push(rows[r], r, m, Pass::kF);
    for (int32_t m = 0; m < shape.microbatches; ++m) push(rows[r], r, m, Pass::kB);
  }
  return rows;
}

}  // namespace piper::strategy
