// Where the elements of each value lie: as a view of a root. View operators (reshape, permute,
// expand, slice, detach, enter) become strides over the storage of the value they read, so that they are
// never kernel calls; a view that strides cannot express is a root of its own (a `copy`).
// Read by program lowering and by the boundary analysis. It plans no memory.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ir/lowered_graph.h"

namespace piper::emit {

// [value] -> layout. Roots are dense; attention results are stored [B, S, H, D] after their
// [B, H, S, D] shape, so that the transpose and reshape that follow them cost nothing.
// A slice that another chunk reads is a root, so that a message carries no more than is read; each operand of a
// communication is one, too, except what is scattered and lies in one piece, as of one sample, and so is what is made
// of a sum over the step, which forwards do not read. `like`: layouts of the same graph bound to another batch, or
// null. Its roots are roots here: with one sample more reshapes are views, and programs of pieces of different sizes
// must exchange the same values.
std::vector<ir::Layout> lay_out(const ir::Graph& graph, const std::vector<ir::Layout>* like = nullptr);

// True where `op` is expressed by strides alone (its result is no root).
bool is_view(const ir::Graph& graph, const std::vector<ir::Layout>& layouts, ir::OpId op);

}  // namespace piper::emit
