// Several stages a rank: rank r owns r, r+R, ... (Narayanan et al., Megatron-LM, 2021). Forward
// units go in groups of R microbatches, within a group chunk after chunk; backward units the same
// with the last chunk first. With the backward split the weight half trails by r units and the
// warm-up is shorter by one forward per later rank.
#include <algorithm>

#include "compiler/strategy/families/rows.h"

namespace piper::strategy {
namespace {

struct Unit {
  int32_t stage, microbatch;
};

std::vector<Unit> units_of(const FamilyShape& shape, int32_t rank, bool last_chunk_first) {
  const int32_t R = shape.ranks, v = shape.stages / R;
  std::vector<Unit> units;
  for (int32_t group = 0; group < shape.microbatches; group += R) {
    for (int32_t c = 0; c < v; ++c) {
      const int32_t chunk = last_chunk_first ? v - 1 - c : c;
      for (int32_t m = group; m < group + R; ++m) units.push_back({rank + chunk * R, m});
    }
  }
  return units;
}

}  // namespace

std::vector<Row> interleaved_rows(const FamilyShape& shape, Backward backward) {
  const int32_t R = shape.ranks, v = shape.stages / R;
  std::vector<Row> rows(R);
  for (int32_t r = 0; r < R; ++r) {
    Row& row = rows[r];
    const std::vector<Unit> forward = units_of(shape, r, false), back = units_of(shape, r, true);
    const int32_t all = static_cast<int32_t>(forward.size());
    const int32_t per_rank = backward == Backward::kFused ? 2 : 1;
    const int32_t warmup = std::min(per_rank * (R - 1 - r) + (v - 1) * R, all);
    int32_t forwards = 0, weights = 0;
    auto put = [&](const Unit& unit, Pass pass) { push(row, unit.stage, unit.microbatch, pass); };
    while (forwards < warmup) put(forward[forwards++], Pass::kF);
    for (int32_t k = 0; k < all; ++k) {
      if (forwards < all) put(forward[forwards++], Pass::kF);
      if (backward == Backward::kFused) {
        put(back[k], Pass::kB);
        continue;
      }
      put(back[k], Pass::kBI);
      if (k >= r) put(back[weights++], Pass::kBW);
    }
    while (backward == Backward::kSplit && weights < all) put(back[weights++], Pass::kBW);
  }
  return rows;
}

}  // namespace piper::strategy
