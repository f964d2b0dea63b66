// What a forward gathers of parts is dropped after it, and its backward gathers it again (Korthikanti et al., "Reducing
// activation recomputation in large transformer models" (2022), section 4.2.2). Used by passes/recompute.
#pragma once

#include <vector>

#include "compiler/ir/chunks.h"
#include "compiler/ir/distribution.h"

namespace piper::tensors {

// After add_backward: where backwards read what an all_gather of the forward made, a second one of phase kBackward
// makes it for them, in a chunk of its own after the last of its readers; reshapes and permutes between are repeated. A
// value stays as it is where the seed of its chunk keeps it (CutSeed::keeps_wholes). `rows`: [chunk]. Returns [new
// chunk] -> the chunk that it was, or comes after.
std::vector<ir::ChunkId> gather_again(ir::ChunkedGraph& chunked, const std::vector<ir::ChunkProperties>& rows);

}  // namespace piper::tensors
