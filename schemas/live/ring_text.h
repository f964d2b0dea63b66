// Rings and hangs as text for people: on SIGQUIT, in the report of a hang, by piper-plan whyhang.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "schemas/live/ring.h"
#include "schemas/live/wait_graph.h"
#include "schemas/plan/plan.h"

namespace piper::live {

// The last `events` events of every thread of a rank, the newest first: where it is now. Lines, each with its end.
std::string ring_text(const plan::Bundle& bundle, const Ring& ring, int64_t now_ns, size_t events);

// The culprit, the strategy's line, and who waits. Lines, each with its end.
std::string hang_text(const Hang& hang);

}  // namespace piper::live
