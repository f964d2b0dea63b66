// The two-way schedules of DeepSeek-V3 (github.com/deepseek-ai/DualPipe): in the middle of the step a
// forward of one direction and a backward of the other share a slot and overlap. Eight phases; a
// rank has two lanes, 0 and 1. In the V form both lanes belong to one pipeline (stages r and
// 2R-1-r); in the two-copies form the lanes are the two directions, and a half of the ranks of R'
// = 2R mirrors the other.
#include <deque>

#include "compiler/strategy/families/rows.h"

namespace piper::strategy {
namespace {

// The stage and first microbatch of each lane of a rank.
struct Lanes {
  int32_t stage[2] = {0, 0};
  int32_t first[2] = {0, 0};
};

// Row of rank r of R ranks in V position, M microbatches per lane, M >= 2R.
Row eight_phases(int32_t R, int32_t M, int32_t r, const Lanes& lanes) {
  Row row;
  int32_t forwards[2] = {0, 0}, backwards[2] = {0, 0};
  std::deque<Action> weights;  // BW passes that wait for a gap
  auto forward = [&](int lane) -> Action {
    return {lanes.stage[lane], lanes.first[lane] + forwards[lane]++, Pass::kF};
  };
  auto backward = [&](int lane) -> Action {
    return {lanes.stage[lane], lanes.first[lane] + backwards[lane]++, Pass::kB};
  };
  auto put = [&](Action action) { row.push_back({action}); };
  auto overlap = [&](Action a, Action b) { row.push_back({a, b}); };
  auto put_input = [&](int lane) {
    Action action = backward(lane);
    weights.push_back({action.stage, action.microbatch, Pass::kBW});
    action.pass = Pass::kBI;
    put(action);
  };
  auto put_weight = [&] {
    put(weights.front());
    weights.pop_front();
  };
  for (int32_t i = 0; i < 2 * (R - 1 - r); ++i) put(forward(0));
  for (int32_t i = 0; i < r + 1; ++i) put(forward(0)), put(forward(1));
  for (int32_t i = 0; i < R - 1 - r; ++i) put_input(1), put_weight(), put(forward(1));
  for (int32_t i = 0; i < M - 2 * R + r + 1; ++i) {
    const Action f0 = forward(0), b1 = backward(1);
    if (i == 0 && r == R - 1) {  // both wait for a neighbour at once here: overlap would gain nothing
      put(f0), put(b1);
    } else {
      overlap(f0, b1);
    }
    const Action f1 = forward(1), b0 = backward(0);
    overlap(f1, b0);
  }
  for (int32_t i = 0; i < R - 1 - r; ++i) {
    put(backward(1));
    const Action f1 = forward(1), b0 = backward(0);
    overlap(f1, b0);
  }
  for (int32_t pass = 0; pass < 2 * (r + 1); ++pass) {
    const int lane = pass % 2 == 0 ? 1 : 0;
    if (pass < r + 1) {
      put(backward(lane));
    } else {
      put_input(lane);
    }
  }
  for (int32_t i = 0; i < R - 1 - r; ++i) put_weight(), put_input(0);
  while (!weights.empty()) put_weight();
  return row;
}

}  // namespace

std::vector<Row> two_way_v_rows(const FamilyShape& shape) {
  std::vector<Row> rows;
  for (int32_t r = 0; r < shape.ranks; ++r) {
    Lanes lanes;
    lanes.stage[0] = r;
    lanes.stage[1] = 2 * shape.ranks - 1 - r;
    rows.push_back(eight_phases(shape.ranks, shape.microbatches, r, lanes));
  }
  return rows;
}

std::vector<Row> two_way_rows(const FamilyShape& shape) {
  const int32_t R = shape.ranks, half = shape.microbatches / 2;
  std::vector<Row> rows;
  for (int32_t r = 0; r < R; ++r) {
    const bool second = r >= R / 2;
    Lanes lanes;
    lanes.stage[0] = second ? R - 1 - r : r;
    lanes.stage[1] = R - 1 - lanes.stage[0];
    // Lane 0 is the direction that starts at this end of the pipeline.
    lanes.first[second ? 0 : 1] = half;
    rows.push_back(eight_phases(R / 2, half, second ? R - 1 - r : r, lanes));
  }
  return rows;
}

}  // namespace piper::strategy
