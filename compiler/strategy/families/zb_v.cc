// ZB-V (Qi et al., "Zero Bubble Pipeline Parallelism", 2023, in the form of torch's
// ScheduleZBVZeroBubble): rank r owns stages r and 2R-1-r. The rule is written for at least 2R-1
// microbatches; with fewer, the passes of the missing ones are left out.
#include <algorithm>

#include "compiler/strategy/families/rows.h"

namespace piper::strategy {
namespace {

// One chunk of a rank: counters of the next microbatch per pass.
struct ChunkState {
  int32_t stage, f = 0, b = 0, w = 0;
};

}  // namespace

std::vector<Row> zb_v_rows(const FamilyShape& shape) {
  const int32_t R = shape.ranks, M = shape.microbatches;
  const int32_t n = std::max(2 * R - 1, M);
  std::vector<Row> rows(R);
  for (int32_t r = 0; r < R; ++r) {
    ChunkState down{r}, up{2 * R - 1 - r};
    auto put = [&](const ChunkState& chunk, int32_t microbatch, Pass pass) {
      if (microbatch < M) push(rows[r], chunk.stage, microbatch, pass);
    };
    auto forward = [&](ChunkState& chunk) { put(chunk, chunk.f++, Pass::kF); };
    auto input = [&](ChunkState& chunk) { put(chunk, chunk.b++, Pass::kBI); };
    auto weight = [&](ChunkState& chunk) { put(chunk, chunk.w++, Pass::kBW); };
    for (int32_t i = 0; i < 2 * (R - r) - 1; ++i) forward(down);
    for (int32_t i = 0; i < r; ++i) forward(up), forward(down);
    for (int32_t i = 0; i < R - r; ++i) forward(up), input(up), weight(up);
    while (up.f < down.f || down.f < n) {
      if (down.f < n) forward(down);
      input(down), weight(down), forward(up), input(up), weight(up);
    }
    for (int32_t i = 0; i < r; ++i) input(down), input(up);
    for (int32_t i = 0; i < R - r; ++i) input(down), weight(down);
    while (up.w < up.b) weight(up);
    while (down.w < down.b) weight(down);
  }
  return rows;
}

}  // namespace piper::strategy
