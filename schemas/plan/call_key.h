// What two kernel calls must agree in to take the same time: kernel, element types, shapes, strides, attributes.
// Written by `piper-run --calibrate`, looked up by `piper-plan simulate --kernel-times`.
#pragma once

#include <string>

#include "schemas/plan/plan.h"

namespace piper::plan {

// "linear_backward_weight+=(f32[64,32]32.1,f32[64,16]16.1)f32[32,16]16.1", attributes after it as the plan has them.
// Knows no slot, offset or origin.
std::string call_key(const KernelCall& call);

}  // namespace piper::plan
