// A simulated step, and the times of a run beside it, as a trace that https://ui.perfetto.dev and trace_processor read:
// a process for each rank, in it a track for each stream, flows from a message's send to its receive and through the
// members of a collective. The format is that of protos/perfetto/trace of github.com/google/perfetto.
#pragma once

#include <string>

#include "tools/piper_plan/play_bundle.h"

namespace piper::tools {

// The bytes of a trace file. A unit of cost becomes a millisecond. With the times of a profile every rank has a second
// process, "rank 0, measured".
std::string perfetto_trace(const StepOfBundle& step);

}  // namespace piper::tools
