// Rule 4: no cycle among starts and ends. Plays the plans forward: an instruction ends when all
// participants of its transfer have started; what never ends waits on a cycle.
#pragma once

#include "schemas/base/status.h"
#include "schemas/plan/plan.h"
#include "schemas/verify/match.h"

namespace piper::verify {

// Which instructions of a rank follow one another, beyond what events say. Each level adds edges to
// the one before: a cycle of D0 is one of D1 and D2 too.
enum class Level : uint8_t {
  kStreams,        // D0: the instructions of a stream
  kCommunication,  // D1: also all communication of a rank, in issue order, whatever stream it is on
                   // (what a library that runs one communication of a device at a time asks for)
  kIssueOrder,     // D2: all instructions of a rank
};
// The failure names the shortest cycle of waits.
Status check_deadlock(const plan::Bundle& bundle, const Matching& matching, Level level);

}  // namespace piper::verify
