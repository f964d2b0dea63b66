// Finds attention with sinks, which a model writes out, and makes it the fused operator:
//   softmax(cat(q k^T * scale [+ mask], sink) [- its maximum])[.., :-1] v
// A sink is a score of its own that takes part of the softmax and has no value: the fifth operand of the operator,
// whose mask stays as it is, so that a window's band bounds the kernels' loops. Scores of all pairs are then neither
// made nor saved. Input level: imported graph, before folding. Output level: the same; the parts become dead. Models in
// f64, or whose values have another width than their keys, or whose scores are read elsewhere, are left as they are.
#pragma once

#include "compiler/ir/graph.h"

namespace piper::frontend {

ir::Graph recognise_attention_sinks(ir::Graph graph);

}  // namespace piper::frontend
