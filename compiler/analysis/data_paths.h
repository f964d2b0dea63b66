// Where data lead from node to node. Not a pass: what add_order_edges and its alternation of slots ask. Made once,
// since orders add no data edges.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ir/dag.h"
#include "schemas/base/flat_lists.h"

namespace piper::analysis {

struct DataPaths {
  FlatLists<uint32_t> next;    // [node] its successors by data edges
  std::vector<int32_t> depth;  // [node] the longest path from a source, which bounds searches
};
DataPaths data_paths(const ir::Dag& dag);

inline bool is_compute(const ir::Dag& dag, uint32_t node) {
  return std::holds_alternative<ir::ComputeNode>(dag.nodes[node].payload);
}

}  // namespace piper::analysis
