// Fuses neighbouring chunks (passes/fuse_chunks.h) that the strategy treats alike: on the same devices, streams and
// settings, split alike, and told apart by no filter of an `order`. Every other directive is carried out by then, so
// tags matter to orders alone. Chunks that are recomputed stay as they are: where one ends is where its values are
// kept.
#pragma once

#include <vector>

#include "compiler/directives/placement.h"
#include "compiler/ir/chunks.h"
#include "compiler/ir/dag.h"
#include "compiler/strategy/strategy.h"

namespace piper::driver {

// Fuses in `chunked`, `dag.chunks` and what both tell of chunks; returns what to fuse in other variants of the model as
// well.
std::vector<ir::ChunkId> fuse_alike_chunks(const std::vector<const strategy::Directive*>& orders,
                                           ir::ChunkedGraph& chunked, ir::Dag& dag, directives::Placement& placement);

}  // namespace piper::driver
