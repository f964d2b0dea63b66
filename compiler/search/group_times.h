// What sums of gradients over replicas take, by the prices that plans are played with: of all gradients of a stage in
// one message, which is never more than in several. Where replicas have updated their parts of what all keep whole,
// gathers of these follow the sums, over the same links.
#pragma once

#include <vector>

#include "compiler/search/point.h"
#include "compiler/search/stage_costs.h"

namespace piper::search {

struct GradientTimes {
  std::vector<double> after_last_us;       // [stage] once a step, after its last backward has begun
  std::vector<double> each_microbatch_us;  // [stage] that each microbatch takes of the stream of the sums
  // [stage] of the links alone, at their whole width: once a step, and for each microbatch.
  std::vector<double> links_us, each_links_us;
};
// `bytes_of_sum`: of an element in a message; 0: as its own type. Experts' gradients, whose groups are smaller, count
// nothing, nor do the others of a model with experts on several ranks.
GradientTimes gradient_times(const Point& point, const std::vector<StageCost>& stages, const timeline::Machine& machine,
                             double bytes_of_sum);

}  // namespace piper::search
