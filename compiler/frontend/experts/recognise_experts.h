// Recognises mixtures of experts in the grouped form and makes them operators on rows in groups.
//
// As imported, each row gathers the whole matrix of its expert (find_products.h) and a batched product takes
// row by row: a copy of a weight for every token and choice. Here the rows are put in the order of their
// experts once (expert_order), each product becomes one grouped_matmul on the weights where they lie, and
// what is between two products is computed in that order too; results that others read go back to the
// model's order (take_rows). Biases and scales of experts become grouped_expand. Sums keep their terms, so
// results differ by the rounding of a matrix product alone.
//
// Models that sort the rows themselves and call a grouped product are made the same operators
// (recognise_sorted.h).
//
// Input and output level: bound and folded forward graph without chunks. Graphs without such products come
// back as they are.
#pragma once

#include "compiler/ir/graph.h"

namespace piper::frontend {

ir::Graph recognise_experts(ir::Graph graph);

}  // namespace piper::frontend
