// What a gradient may be asked of.
#pragma once

#include "compiler/ir/graph.h"

namespace piper::frontend {

// A float value that is made from trained parameters (a mask of learned relative positions): it has a gradient.
bool depends_on_trained(const ir::Graph& graph, ir::ValueId value);

}  // namespace piper::frontend
