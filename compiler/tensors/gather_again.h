// What a forward gathers of parts is dropped after it, and its backward gathers it again (Korthikanti et al., "Reducing
// activation recomputation in large transformer models" (2022), section 4.2.2). Used by passes/recompute.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "compiler/ir/chunks.h"
#include "compiler/ir/distribution.h"

namespace piper::tensors {

struct GatheredAgain {
  std::vector<ir::ChunkId> from;              // [new chunk] the chunk that it was, or comes after
  std::map<ir::ValueId, ir::ValueId> wholes;  // of the forward -> what the backward makes again
};

// After add_backward: where backwards read what an all_gather of the forward made, a second one of phase kBackward
// makes it for them, in a chunk of its own after the last of its readers; reshapes and permutes between are repeated.
// What it gathers is made again, too, in a chunk right after it, as far as operators are repeated (`repeats`: forward
// ops that may be); it then reads what goes on to later chunks. So is what an `enter` marks for readers with parts. A
// value stays as it is where the seed of its chunk keeps it (CutSeed::keeps_wholes). `rows`: [chunk].
GatheredAgain gather_again(ir::ChunkedGraph& chunked, const std::vector<ir::ChunkProperties>& rows,
                           const std::function<bool(const ir::Op&)>& repeats);

}  // namespace piper::tensors
