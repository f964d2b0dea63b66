// Bounds that no strategy of a point is below, in time and in memory: what a search goes by. Three of them, each closer
// and dearer than the one before.
//
// Time, by the whole model: kernels of all microbatches on one device, evenly over the ranks. By the model's cut: the
// same with weights, values and tables cut as the point says, and the exchanges between kernels. By stages: the
// schedule's own table is played with what the stages' passes cost at least (stage_costs.h); after the last backward of
// a stage come the sums of its gradients, and after a rank's last pass its part of the update; a rank's kernels and
// what these sums take of its device fit into the step. Messages between stages take no time. Memory: what the stages
// keep persistently, divided as the point says, and what the most microbatches whose backward is open at a time, by the
// same table, have saved.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/search/stage_costs.h"

namespace piper::search {

struct Bound {
  double step_us = 0;
  int64_t peak_bytes = 0;
  std::string why_not;  // the point does not compile: a line
};

// What a strategy says of sums over replicas.
struct SumSettings {
  double bytes = 0;      // the fewest that an element of a gradient has in a message; 0: its own type's
  int64_t max_ctas = 0;  // the fewest multiprocessors that a stream may take; 0: nothing is said
};

class Bounds {
 public:
  // `layers`: into how many stages the model can be cut at most.
  Bounds(StageProbes& probes, const timeline::Machine& machine, int64_t batch, const SumSettings& sums, int32_t layers)
      : probes_(probes), machine_(machine), batch_(batch), sums_(sums), layers_(layers) {}

  Bound by_model(const Point& point);
  Bound by_cut(const Point& point);
  Bound by_stages(const Point& point);
  // The shape whose costs each of these goes by, of a point whose stages all repeat the same.
  Shape model_shape(const Point& point) const;
  Shape cut_shape(const Point& point) const;
  Shape stages_shape(const Point& point) const { return shape_of(point, batch_); }
  StageProbes& probes() { return probes_; }

 private:
  Bound by_level(const Point& point, bool cut);  // by_model, or by_cut
  // [stage] The first stages of a mixed point cost what one of its plain points says, the others what the other says.
  StageCosts stages_of(const Point& point);
  // The bound of the whole model as one stage; `places`: ranks that share what the probe's one has.
  Bound by_one_stage(const Point& point, const Shape& shape, double places);

  StageProbes& probes_;
  const timeline::Machine& machine_;
  int64_t batch_;
  SumSettings sums_;
  int32_t layers_;
};

}  // namespace piper::search
