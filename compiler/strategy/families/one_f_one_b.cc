// One forward, one backward in turn (Narayanan et al., PipeDream-Flush, 2021); with the backward
// split it is ZB-H1 (Qi et al., "Zero Bubble Pipeline Parallelism", 2023): the weight half of
// microbatch k-r follows the k-th input half on rank r.
#include <algorithm>

#include "compiler/strategy/families/rows.h"

namespace piper::strategy {

std::vector<Row> one_f_one_b_rows(const FamilyShape& shape, Backward backward) {
  const int32_t M = shape.microbatches;
  std::vector<Row> rows(shape.ranks);
  for (int32_t r = 0; r < shape.ranks; ++r) {
    Row& row = rows[r];
    int32_t forwards = 0, weights = 0;
    const int32_t warmup = std::min(shape.ranks - 1 - r, M);
    while (forwards < warmup) push(row, r, forwards++, Pass::kF);
    for (int32_t k = 0; k < M; ++k) {
      if (forwards < M) push(row, r, forwards++, Pass::kF);
      if (backward == Backward::kFused) {
        push(row, r, k, Pass::kB);
        continue;
      }
      push(row, r, k, Pass::kBI);
      if (k >= r) push(row, r, weights++, Pass::kBW);
    }
    while (backward == Backward::kSplit && weights < M) push(row, r, weights++, Pass::kBW);
  }
  return rows;
}

}  // namespace piper::strategy
