// Gives a linear layer the axes that a model takes from its rows before it and gives back after it:
//   reshape(linear(reshape(x, [rows, I])), [.., O])  becomes  linear(reshape(x, [.., I])), of the same rows
// as in nn.MultiheadAttention. A layer is the same for each row, and with their axes its rows show which of them are of
// one sample, or of one part of the sequence.
// Input level: an imported graph. Output level: the same; the second reshape is left to the fold.
#pragma once

#include "compiler/ir/graph.h"

namespace piper::frontend {

ir::Graph keep_axes_of_rows(ir::Graph graph);

}  // namespace piper::frontend
