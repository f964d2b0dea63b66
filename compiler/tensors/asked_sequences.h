// Which chunks a directive cuts the sequence of, held against what lies in parts (rest.h). Nothing is changed. Used by
// passes/partition_tensors.
#pragma once

#include <vector>

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/distribution.h"
#include "compiler/tensors/rest.h"
#include "schemas/base/status.h"

namespace piper::tensors {

// [chunk] of `chunks`, those of which the sequence is cut.
std::vector<ChunkCut> chunks_of_sequences(const ir::Distribution& distribution, std::vector<ChunkCut> chunks);

// Errors: P0260 a directive that cuts no sequence, P0259 experts over the places whose tokens need more than a part of
// it. Remarks say what is gathered, and why.
Status check_sequences(const ir::Graph& graph, const ir::Distribution& distribution, const Rest& rest,
                       diag::Diagnostics& diags);

}  // namespace piper::tensors
