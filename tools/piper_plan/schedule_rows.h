// The schedule of a step as rows of cells, one cell a pass of a stage: what the pictures of `piper-plan show` draw, as
// text and as SVG. Looks at compute, and at collectives of cuts; messages are in drawn_step.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schemas/plan/plan.h"
#include "schemas/timeline/timeline.h"

namespace piper::tools {

struct Cell {
  std::string label;  // "F0", or "2F0" where the rank has several stages; I and W are the halves of a backward
  std::string stage;  // "PP2"
  char pass = 'F';    // F, B, I or W
  int64_t microbatch = 0;
  double begin = 0, end = 0;  // in the timeline's unit
  friend bool operator==(const Cell&, const Cell&) = default;
};
struct ScheduleRow {
  std::vector<int32_t> ranks;  // ascending
  std::vector<Cell> cells;     // in issue order; two that overlap are on different streams
  std::vector<double> marks;   // when collectives of cuts end, ascending
};

// A row for each loaded rank, in the bundle's order. `timeline`: with unit costs.
std::vector<ScheduleRow> schedule_rows(const plan::Bundle& bundle, const timeline::Timeline& timeline);
// Ranks with the same cells and marks share a row, that of the first one.
std::vector<ScheduleRow> merge_like_rows(std::vector<ScheduleRow> rows);
// For the shortest cell that takes time; 0 where there is none.
double shortest_cell(const std::vector<ScheduleRow>& rows);

}  // namespace piper::tools
