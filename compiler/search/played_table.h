// A schedule's table played with the least that its passes take: when rows and stages end at the earliest, and what is
// saved at once for backwards to come. Knows no plan; messages take no time.
#pragma once

#include <vector>

#include "compiler/search/stage_costs.h"
#include "compiler/strategy/families.h"

namespace piper::search {

struct PlayedTable {
  std::vector<double> end;                         // [row] of its last pass
  std::vector<double> work;                        // [row] of its passes' kernels
  std::vector<std::vector<double>> last_backward;  // [row][stage] begin of its last pass that makes gradients; -1: none
  std::vector<std::vector<int64_t>> backwards;     // [row][stage] how many microbatches'
  std::vector<double> most_live;                   // [row] bytes beside what is persistent, at least
};
PlayedTable play_table(const strategy::ScheduleTable& table, const std::vector<StageCost>& stages);

}  // namespace piper::search
