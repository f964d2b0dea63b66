// A thread that keeps others waiting, or waits, in words: why, where, since when. Used by wait_graph.cc.
#pragma once

#include <cstdint>
#include <string>

#include "schemas/live/run_threads.h"
#include "schemas/live/wait_graph.h"

namespace piper::live {

// Why a thread that waits for nobody does not go on.
Cause cause_of(const RunThreads& threads, const Thread& thread);

// Where the thread is, as a culprit for this cause.
Culprit describe(const RunThreads& threads, const Thread& thread, Cause cause);

// The culprit and its line; nobody who waits for it yet. A rank that is stopped or gone is reported where its streams
// are; for a message that does not come, its sender. `now_ns`: of CLOCK_MONOTONIC.
Hang blame(const RunThreads& threads, const Thread& found, int64_t now_ns);

// "rank 1 waits at step 3, instr 4, ..., for 5.0 s, for rank 0".
std::string waits_text(const RunThreads& threads, const Thread& thread, int64_t now_ns);

}  // namespace piper::live
