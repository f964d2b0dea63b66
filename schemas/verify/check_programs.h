// Rule 7 for programs: what calls do to slots is what the slots declare.
#pragma once

#include "schemas/base/status.h"
#include "schemas/plan/plan.h"

namespace piper::verify {

Status check_program(const plan::Program& program);

}  // namespace piper::verify
