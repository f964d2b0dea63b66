// The shortest cycle of a graph of waits, for the story of a deadlock. Knows nothing of plans.
#pragma once

#include <cstdint>
#include <vector>

namespace piper::verify {

using WaitGraph = std::vector<std::vector<int32_t>>;  // [node]: the nodes that it waits for

// Nodes of a shortest cycle in order, beginning with the lowest; empty where the graph has none. Breadth
// first from each node, inside its strongly connected component. Deterministic.
std::vector<int32_t> shortest_cycle(const WaitGraph& graph);

}  // namespace piper::verify
