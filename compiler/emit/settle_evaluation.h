// Fits the plans of an evaluation into the memory of the training's plans: tensors that both have get the training's
// places, sums and constants of the evaluation alone lie after the training's, and streams have the training's
// numbers. Used where both are emitted; schemas/verify proves the result (rule 11).
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/emit/emit_bundle.h"
#include "compiler/emit/role.h"
#include "compiler/emit/role_emitter.h"

namespace piper::emit {

// Ranks of a role whose training has other places get a role each: `plans` ([role]) and `roles` grow.
void settle_evaluation(std::vector<RolePlan>& plans, Roles& roles, const plan::Bundle& training, int64_t alignment);

// Takes the evaluation into the bundle of its training, with its constants, and the memory that it needs into the
// predictions.
void add_evaluation(Emitted& training, Emitted evaluation);

}  // namespace piper::emit
