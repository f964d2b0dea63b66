// Rule 4: no cycle among starts and ends. Plays the plans forward: an instruction ends when all
// participants of its transfer have started; what never ends stands on a cycle.
#pragma once

#include "schemas/base/status.h"
#include "schemas/plan/plan.h"
#include "schemas/verify/match.h"

namespace piper::verify {

// Streams: instructions of a stream follow one another (D0). IssueOrder: all of a rank (D2).
enum class Chaining : uint8_t { kStreams, kIssueOrder };
Status check_deadlock(const plan::Bundle& bundle, const Matching& matching, Chaining chaining);

}  // namespace piper::verify
