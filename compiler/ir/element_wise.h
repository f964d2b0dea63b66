// Which forward operators act element by element: what passes that follow an axis through the graph treat alike.
#pragma once

#include "compiler/ir/graph.h"

namespace piper::ir {

// One operand, a result of its shape.
bool is_element_wise_unary(OpKind kind);
// Several operands that are broadcast against each other.
bool is_element_wise_broadcast(OpKind kind);

}  // namespace piper::ir
