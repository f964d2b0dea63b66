// How each op of a model depends on inputs and parameters: which have a place in the model's order, and which follow
// their readers. Reads a bound forward graph.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ir/graph.h"

namespace piper::analysis {

// How an op takes part in the cut.
enum class OpRole : uint8_t {
  kWork,     // depends on an input and a parameter: has a place in the model's order
  kWeights,  // depends on parameters alone (a position table looked up): joins its first reader
  kCopied,   // depends on no parameter, or is a view or cast of a weight: copied into every region that reads it
};
std::vector<OpRole> op_roles(const ir::Graph& graph);

}  // namespace piper::analysis
