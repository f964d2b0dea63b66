// What an operator does to the rows of its operands: whether it computes each row from that row alone, so
// that it can be computed on the rows in another order. A value has its rows in its leading `prefix` axes,
// whose extents multiply to the number of rows. Used by recognise_experts alone; it changes nothing.
#pragma once

#include <optional>
#include <vector>

#include "compiler/ir/graph.h"

namespace piper::frontend::experts {

enum class Role : uint8_t {
  kRows,    // the operand's rows are the result's rows
  kShared,  // every row reads the same of it
  kOther,   // part of the rows, broadcast over the others, or rows of another kind
};
struct RowWise {
  size_t prefix = 0;        // of the result
  std::vector<Role> roles;  // [operand]; an absent operand is kShared
};

// `rows[operand]`: the prefix of the operand where it is known to have rows, 0 where it is not. nullopt
// where result 0 of `op` is not row by row, or is not known to be.
std::optional<RowWise> row_wise(const ir::Graph& graph, const ir::Op& op, const std::vector<size_t>& rows);

// The op's attributes where each operand's rows are merged into one leading axis.
ir::Attrs merged_attrs(const ir::Graph& graph, const ir::Op& op, size_t prefix, size_t operand_prefix,
                       int64_t num_rows);

}  // namespace piper::frontend::experts
