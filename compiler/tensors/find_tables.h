// Which tables of a graph can be cut by their rows, one for each token of a vocabulary: weights that look-ups and the
// products that make logits read, and nothing else does. Nothing is changed. Used by passes/partition_tensors.
#pragma once

#include <string>
#include <vector>

#include "compiler/tensors/follow_cuts.h"

namespace piper::tensors {

struct Table {
  ir::ValueId parameter;  // [V, width]
  ir::ChunkId chunk;      // of its first reader
  std::vector<ir::OpId> look_ups;
  std::vector<ir::OpId> products;  // that make logits: a loss takes their features as its classes
};

// `asked`: [chunk] whether its tables are to be cut. Look-ups at numbers that are the same for all samples, of
// positions, are none; nor is a table of fewer rows than there are places. In the order of their first readers.
std::vector<Table> find_tables(const ir::Graph& graph, const std::vector<ChunkCut>& chunks,
                               const std::vector<bool>& asked);

}  // namespace piper::tensors
