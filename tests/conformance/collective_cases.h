// The cases of common_cases() about collectives; all ranks run them together.
#pragma once

#include <vector>

#include "tests/conformance/transport_cases.h"

namespace piper::conformance {

std::vector<Case> collective_cases();
// Two ranks that count the rows between them differently: the receiving one must fail.
std::string counts_that_differ(hal::Transport& transport);

}  // namespace piper::conformance
