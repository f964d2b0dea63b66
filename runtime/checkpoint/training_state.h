// Whether a checkpoint is of the training that a plan does.
#pragma once

#include <vector>

#include "schemas/checkpoint/manifest.h"
#include "schemas/checkpoint/state_parts.h"
#include "schemas/plan/plan.h"

namespace piper::checkpoint {

// Whether the checkpoint has these parts of the model's state: R0703 with what differs: a tensor that is missing, has
// another shape or type, or that the model does not have.
Status check_same_model(const Manifest& checkpoint, const plan::Manifest& manifest,
                        const std::vector<StatePart>& parts);

// Whether a run of this bundle can go on from the checkpoint: that, and R0703 where it is of another optimizer.
Status check_same_training(const Manifest& checkpoint, const plan::Manifest& manifest,
                           const std::vector<StatePart>& parts);

}  // namespace piper::checkpoint
