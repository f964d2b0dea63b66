// The cases of common_cases() about the collectives that move parts; all ranks run them together.
#pragma once

#include <vector>

#include "tests/conformance/communicator_cases.h"

namespace piper::conformance {

std::vector<Case> collective_cases();

}  // namespace piper::conformance
