// An instruction in words, for messages and profiles.
#pragma once

#include <string>

#include "schemas/plan/plan.h"

namespace piper::exec {

// "run PP0.F m3", "send to 1", of instruction `index`.
std::string action_text(const plan::Bundle& bundle, const plan::RankPlan& plan, int32_t index);
// "instr 87 all_reduce (replicate at x.yaml:14:3)".
std::string describe_instruction(const plan::Bundle& bundle, const plan::RankPlan& plan, int32_t index);

}  // namespace piper::exec
