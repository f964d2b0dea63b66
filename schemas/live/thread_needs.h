// What a thread of a run needs of others before it goes on: the edges of the graph of waits. Used by wait_graph.cc.
#pragma once

#include <cstdint>
#include <vector>

#include "schemas/live/run_threads.h"

namespace piper::live {

// Threads (indices of RunThreads::all()) that have not yet done what this one waits for, or that are stopped or gone in
// the middle of it. None: it is busy, or nothing that the rings show keeps it.
std::vector<int32_t> needs(const RunThreads& threads, const Thread& thread);

}  // namespace piper::live
