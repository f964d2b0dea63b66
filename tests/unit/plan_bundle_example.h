// A small, complete and correct bundle of two ranks, for tests of the bundle's reader, writer,
// verifier and tools: rank 0 runs a chunk and sends, rank 1 receives, runs, sends back; then both
// sum their gradients and update. And a pipeline of any size.
#pragma once

#include "schemas/plan/plan.h"

namespace piper::plan::example {

Bundle two_ranks();

// `ranks` chunks in a row, all forwards before all backwards: rank r runs PP<r>.F and PP<r>.B of every
// microbatch and exchanges 64-byte messages with its neighbours. `alternate`: as textbooks write it, rank r
// runs ranks - 1 - r forwards ahead, then one forward and one backward in turn, and issues each arrival and
// departure next to its pass.
Bundle pipeline(int32_t ranks, int32_t microbatches, bool alternate = false);

// Adds an instruction at the end; returns its index.
int32_t append(RankPlan& plan, int32_t stream, Action action, int32_t provenance = -1);
int32_t add_buffer(RankPlan& plan, Buffer buffer);
int32_t add_event(RankPlan& plan, const std::string& name);

}  // namespace piper::plan::example
