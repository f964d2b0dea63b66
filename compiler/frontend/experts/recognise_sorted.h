// Recognises rows that a model itself sorts by their experts, for a grouped product: sort(ids), x[order],
// a histogram of the ids, a product by groups, and the inverse permutation. Sort, histogram and inverse become
// one expert_order, and the indexing take_rows, so that the rest of the compiler sees that the rows are those of
// the samples in another order. Used on what is imported, before it is compared with the whole batch (bind_slice.cc),
// and by recognise_experts.
#pragma once

#include "compiler/ir/graph.h"

namespace piper::frontend::experts {

// Graphs without such a sort come back as they are.
ir::Graph recognise_sorted(ir::Graph graph);

}  // namespace piper::frontend::experts
