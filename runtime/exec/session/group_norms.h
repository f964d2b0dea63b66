// The norm of the gradients of each group of the optimizer, from what a step gives to the host. Used by the reporter.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "schemas/plan/plan.h"

namespace piper::exec {

// In the manifest's order, without groups of no tensor. `norm`: of all gradients; `squares`: RankPlan::grad_squares,
// which may be those of gradients times a loss scale, so that they say parts of the norm and not its size. None: no
// norms.
std::vector<std::pair<std::string, float>> group_norms(const plan::Manifest& manifest, float norm,
                                                       std::span<const float> squares);

}  // namespace piper::exec
