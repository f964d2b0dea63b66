// The computes of a slot with several members as one sequence. Used by add_order_edges, which chains what
// lies; sees the DAG before its transfers are scheduled.
#pragma once

#include <vector>

#include "compiler/ir/dag.h"
#include "compiler/analysis/data_paths.h"

namespace piper::analysis {

// Members alternate where one waits for communication that this slot issued: the other one goes on until it waits too.
// Then one weight pass that is ready runs, and after it, or where there is none, the member whose message was sent
// first. Ties: forward, then the lower microbatch. `members`: the nodes of each; what is no compute is left out. The
// same input gives the same sequence.
std::vector<ir::NodeId> alternate(const DataPaths& paths, const ir::Dag& dag,
                                  const std::vector<std::vector<ir::NodeId>>& members);
// Member after member.
std::vector<ir::NodeId> one_after_the_other(const DataPaths& paths, const ir::Dag& dag,
                                            const std::vector<std::vector<ir::NodeId>>& members);

}  // namespace piper::analysis
