// Offsets of a program's intermediate values inside its workspace, by liveness over its calls. A kernel that may
// write over one of its inputs takes that input's bytes where they die. Used by lower_programs only.
#pragma once

#include <cstdint>
#include <vector>

#include "schemas/plan/plan.h"

namespace piper::emit {

// `roots[call]`: the value after each workspace operand of the call, outputs first, then inputs, in order.
// `root_bytes[value]`: its size. Operands hold offsets relative to their value; the value's own offset is added.
void plan_workspace(plan::Program& program, const std::vector<std::vector<uint32_t>>& roots,
                    const std::vector<int64_t>& root_bytes);

}  // namespace piper::emit
