// What of a rank's memory is the state of training: the values of parameters, moments, running statistics, and what
// training counts. Read off the plan's placements and its buffers of class `training`.
#pragma once

#include <string>
#include <vector>

#include "schemas/checkpoint/open_checkpoint.h"
#include "schemas/plan/plan.h"

namespace piper::checkpoint {

// Elements [first, first + count) of a global tensor, as this rank has them.
struct StatePart {
  StateKind kind = StateKind::kParameter;
  std::string name;
  DType dtype = DType::kF32;   // of the elements here
  std::vector<int64_t> shape;  // of the whole tensor
  int64_t first = 0, count = 0;
  bool owner = false;  // this rank's elements are saved
  bool copy = false;   // of another part in another type: loaded, never saved
  plan::BufferRange where;
};
// In the order of the plan; gradients and constants are no state.
std::vector<StatePart> state_parts(const plan::RankPlan& plan);

// Whether a run of this bundle can go on from the checkpoint: R0703 with what differs: the optimizer, a tensor of the
// model that is missing, has another shape or type, or that the model has not.
Status check_same_training(const Manifest& checkpoint, const plan::Manifest& manifest,
                           const std::vector<StatePart>& parts);

}  // namespace piper::checkpoint
