// Cuts regions into segments, each a chunk of its own, so that no segment first uses more bytes of parameters than a
// bucket holds: a bucket's gradients are reduced while earlier segments still run backward, and sharded parameters are
// gathered segment by segment. A region of more than one segment becomes chunks "PP0/1", "PP0/2", ... with the region's
// tags. Segments are ranges of the region's op order, filled from its end, as buckets are. In a region whose forward
// is repeated, each segment repeats itself alone, and what crosses a cut is kept. So it is cut near to where a bucket
// is full, where least is kept, and only where that is little of what either side makes: its segments may use less than
// a bucket holds, or more.
#pragma once

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/module.h"

namespace piper::passes {

// [op] bytes of the trained parameters that it is the first of its chunk to read.
std::vector<int64_t> first_used_bytes(const ir::Graph& graph);

// By ChunkProperties::segment_bytes; sets Chunk::region of all chunks.
Status cut_segments(ir::Module& module, diag::Diagnostics& diags);

}  // namespace piper::passes
