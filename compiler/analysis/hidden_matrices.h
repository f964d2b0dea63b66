// Which parameters are matrices of hidden layers: what an optimizer of whole matrices (Muon) updates. Not a pass; read
// by driver/choose_rules.
//
// Such a parameter has exactly two axes and is multiplied: it, or it transposed or cast, is the weight of a `linear` or
// an operand of a `matmul`. Not among them are tables that are read by index (embeddings), also where the model
// multiplies with them, too, and the vocabulary head: products from which the scores of a cross entropy are made
// without another product in between. Kernels of convolutions have more axes, as have experts that are stacked.
#pragma once

#include <vector>

#include "compiler/ir/graph.h"

namespace piper::analysis {

// [parameter]. `graph`: a forward with its loss.
std::vector<bool> hidden_matrices(const ir::Graph& graph);

}  // namespace piper::analysis
