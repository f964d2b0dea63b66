// Products whose weights can be cut: which axes of the weight are the features that they make, and those that they sum
// over. In the result, and in what is multiplied, these are the last axis. Used by follow_cuts.
#pragma once

#include <cstdint>
#include <optional>

#include "compiler/ir/graph.h"

namespace piper::tensors {

struct WeightAxes {
  int32_t out = 0, in = 1;  // of operand 1
};
// Nothing: the operator is no product by a weight.
std::optional<WeightAxes> weight_axes(const ir::Graph& graph, const ir::Op& op);

// How many features the product makes.
int64_t features_of(const ir::Graph& graph, const ir::Op& product);

// The bias that a product adds; invalid: none.
ir::ValueId bias_of(const ir::Op& product);

}  // namespace piper::tensors
