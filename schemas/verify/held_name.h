// By what the proof knows the content of a slot: the model's own name, which number of the step it is, or, where chunks
// make and read it, what they call it. Fields decide; only in the last case is it the slot's name.
#pragma once

#include <cstdint>
#include <string>

#include "schemas/plan/plan.h"

namespace piper::verify {

// "grad h.0.weight", "tokens", "loss", "dropped", "act".
std::string held_name(const plan::Slot& slot);
// For a number of the step: "loss", "loss 1 count".
std::string held_name(plan::StepNumber number, int32_t term);

}  // namespace piper::verify
