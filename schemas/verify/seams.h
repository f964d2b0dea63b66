// Rule 11: an evaluation can run between any two steps of its training, on the same memory, and leaves no trace there.
//
// What is in the arena is nobody's business: rules 5 and 6 hold for both, so each writes there what it reads. What
// outlasts a step is written by steps alone, and tensors are where the training keeps them. Sums of the evaluation lie
// after the training's and rule 8 holds for them, so each evaluation finds them cleared.
#pragma once

#include "schemas/base/status.h"
#include "schemas/plan/plan.h"

namespace piper::verify {

// The evaluation alone writes nothing that outlasts a step but sums of its own: no updates, no running statistics.
// P0639.
Status check_reads_only(const plan::Bundle& evaluation);
// Against the training that it belongs to, rank by rank: P0639.
Status check_seams(const plan::Bundle& training, const plan::Bundle& evaluation);

}  // namespace piper::verify
