// Finds where a model multiplies each row by the matrix of the row's expert, as exporters write it: a list
// of expert ids gathers whole matrices, `index_select(w [E, A, B], ids [N])`, and a batched product takes one
// row for each of them. Used by recognise_experts alone; it changes nothing.
#pragma once

#include <optional>

#include "compiler/ir/graph.h"

namespace piper::frontend::experts {

struct Product {
  ir::ValueId weight;       // [E, A, B], made of parameters and constants alone
  bool transposed = false;  // attribute of the grouped_matmul that replaces it
  ir::ValueId index;        // i64 [N], as the index_select reads it
  ir::ValueId row;          // the other operand: one row of K elements for each index
  size_t prefix = 0;        // leading axes of the result; their extents multiply to N
  size_t row_prefix = 0;    // of `row`: they multiply to N, or to fewer where k indices in a row share one of its rows
  int64_t rows = 0, in = 0, out = 0;  // N, K, M
};

// nullopt where `op` does not end such a product. Where the matrices of a token's k experts are side by side,
// [T, K, k * M] for a token [T, 1, K], it is the reshape to [T, k, M] that ends it.
std::optional<Product> product_of(const ir::Graph& graph, const ir::Op& op);

// The value that decides which expert each row has: `index` without reshapes, and without the
// where(ids < 0, ids + E, ids) of an index that may count from the end.
ir::ValueId root_of_index(const ir::Graph& graph, ir::ValueId index);
// Whether `v` cannot be negative: positions found by topk or max_dim.
bool is_never_negative(const ir::Graph& graph, ir::ValueId v);

}  // namespace piper::frontend::experts
