// Finds rotary position embeddings that a model writes out and makes them one operator:
//   x * cos + cat(-x2, x1) * sin, x1 and x2 the halves of the last axis of x
// Input level: imported and folded graph. Output level: the same, with rotary ops; parts that nothing else reads are
// gone. Tables that are trained stay as they are, since the operator has no gradient for them; so do other forms
// (neighbouring elements turned against each other, tables of half the width).
#pragma once

#include "compiler/ir/graph.h"

namespace piper::frontend {

ir::Graph recognise_rotary(ir::Graph graph);

}  // namespace piper::frontend
