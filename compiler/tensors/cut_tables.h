// Makes tables of parts of them: look-ups of a place's own rows, whose results are shares, and losses of parts of the
// classes (row_lse of each place's, whose sum over the places has the rows' statistics). Used by
// passes/partition_tensors, after find_tables and follow_cuts have said which.
#pragma once

#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/tensors/convert_rest.h"
#include "compiler/tensors/find_tables.h"
#include "compiler/tensors/follow_cuts.h"

namespace piper::tensors {

// Types of values between are the caller's to change: what is new is entered in `found`. `builder`: for ops beside one.
void cut_tables(ir::Graph& graph, const std::vector<Table>& tables, const std::vector<ChunkCut>& chunks,
                const BuilderAt& builder, FollowedCuts& found);

// What a place has of an axis; the last may have fewer.
inline int64_t part_extent(int64_t extent, int64_t places) { return (extent + places - 1) / places; }

}  // namespace piper::tensors
