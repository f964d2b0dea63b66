// What rest.h has found, in the graph: types of parts, and what turns them into the whole and back. Used by
// passes/partition_tensors.
#pragma once

#include <functional>
#include <map>

#include "compiler/ir/distribution.h"
#include "compiler/tensors/rest.h"

namespace piper::tensors {

// A builder at an operator, of what a directive of this dim asks for.
using BuilderAt = std::function<ir::GraphBuilder(const ir::Op&, ir::CutDim)>;

// Result of a conversion -> what its chunk is called after (regions/cut_at_exchanges.h).
using Ways = std::map<uint32_t, const char*>;

// A place's part of the sum of a share, along an axis.
ir::ValueId scatter(ir::GraphBuilder& b, ir::ValueId share, PartAlong along, const ChunkCut& cut, Ways& ways);

// Operators read the place's parts of what is whole, as a directive of `dim` asks for. Returns the chunks with
// conversions.
std::vector<ir::ChunkId> take_own_parts(ir::Graph& graph, const std::vector<OwnRead>& own, ir::CutDim dim,
                                        const std::vector<ChunkCut>& chunks, const BuilderAt& builder_at, Ways& ways);

// After shares have become sums: readers get the whole, or their part, of what they are to read. Returns the chunks
// with conversions.
std::vector<ir::ChunkId> convert_rest(ir::ChunkedGraph& chunked, const Rest& rest, const std::vector<ChunkCut>& chunks,
                                      const BuilderAt& builder_at, Ways& ways);

}  // namespace piper::tensors
