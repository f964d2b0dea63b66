// Whether a checkpoint is of the training that a plan does.
#pragma once

#include <vector>

#include "schemas/checkpoint/manifest.h"
#include "schemas/checkpoint/state_parts.h"
#include "schemas/plan/plan.h"

namespace piper::checkpoint {

// Whether a run of this bundle can go on from the checkpoint: R0703 with what differs: the optimizer, a tensor of the
// model that is missing, has another shape or type, or that the model does not have.
Status check_same_training(const Manifest& checkpoint, const plan::Manifest& manifest,
                           const std::vector<StatePart>& parts);

}  // namespace piper::checkpoint
