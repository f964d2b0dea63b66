// Folds an imported graph and makes operators of what models write out with others: norms, rotary embeddings, experts.
// Both import routes end here. Each form has a file of its own, beside this one or in ../experts.
#pragma once

#include "compiler/ir/graph.h"

namespace piper::frontend {

ir::Graph recognise(ir::Graph imported);

}  // namespace piper::frontend
