// Ids of the compiler's IR. Each indexes one dense vector of one owner.
#pragma once

#include "schemas/base/ids.h"

namespace piper::ir {

using ValueId = Id<struct ValueTag>;  // Graph::value
using OpId = Id<struct OpTag>;        // Graph::op
using ChunkId = Id<struct ChunkTag>;  // regions cut out of a graph, numbered in topological order
using ScopeId = Id<struct ScopeTag>;  // Graph::scope: module paths
using NodeId = Id<struct NodeTag>;    // Dag::nodes
using ProvId = Id<struct ProvTag>;    // Provenance

}  // namespace piper::ir
