// What a forward gathers of parts, or receives of experts' tokens, is dropped after it, and its backward has it sent
// again (Korthikanti et al., "Reducing activation recomputation in large transformer models" (2022), section 4.2.2).
// Used by passes/recompute.
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
  std::map<ir::ValueId, ir::ValueId> made;    // of experts -> the same, made again for what they return
};

// Whether a forward op may be repeated to make again what a conversion of that kind sends; or the conversion itself.
using Repeatable = std::function<bool(const ir::Op&, ir::OpKind)>;

// After add_backward: where backwards, or forwards that they repeat (`reads_later`), read what an all_gather of the
// forward made, a second one of phase kBackward makes it for them, in a chunk of its own after the last of its readers;
// reshapes and permutes between are repeated. What it gathers is made again, too, in a chunk right after it, as far as
// operators are repeated (`repeats`); it then reads what goes on to later chunks. So is what an `enter` marks for
// readers with parts. A value stays as it is where the seed of its chunk keeps it (CutSeed::keeps_wholes), and for
// readers on other devices than the gather's, which have no parts.
//
// An all_to_all is repeated in the same way. What it sends must be made again: kept, it would be as large. The order of
// rows and their counts are kept, so the same rows travel. What has one number a row, as the counts and the weights of
// rows, is small and kept. What experts return is made again of what they receive again; their own backward reads what
// is made there (`made`). `rows`: [chunk].
GatheredAgain gather_again(ir::ChunkedGraph& chunked, const std::vector<ir::ChunkProperties>& rows,
                           const Repeatable& repeats, const std::function<bool(ir::OpId)>& reads_later);

}  // namespace piper::tensors
