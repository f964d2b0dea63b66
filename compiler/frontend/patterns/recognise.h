// Folds an imported graph and replaces compositions that have an operator of their own: norms, attention with
// sinks, rotary embeddings, experts. Linear layers keep the axes of their rows. Called at the end of every
// ModelFile::bind. Each form has a file of its own, beside this one or in ../experts. A composition that no form fits
// is left as it is: nothing fails.
#pragma once

#include "compiler/ir/graph.h"

namespace piper::frontend {

ir::Graph recognise(ir::Graph imported);

}  // namespace piper::frontend
