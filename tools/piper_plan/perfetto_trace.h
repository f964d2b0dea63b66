// A simulated step, and the times of a run beside it, as a trace that https://ui.perfetto.dev and trace_processor read:
// a process for each rank, in it a track for each stream, flows from a message's send to its receive and through the
// members of a collective. The format is that of protos/perfetto/trace of github.com/google/perfetto.
#pragma once

#include <string>

#include "schemas/plan/plan.h"
#include "schemas/timeline/timeline.h"

namespace piper::tools {

// The bytes of a trace file. `measured`: nullptr where the timeline has unit costs, of which one becomes a millisecond;
// else every rank has a second process, "rank 0, measured".
std::string perfetto_trace(const plan::Bundle& bundle, const timeline::Timeline& timeline,
                           const timeline::Measured* measured);

}  // namespace piper::tools
