// Finds RMS norms that a model writes out and makes them one operator:
//   x * rsqrt(mean(x^2, last axis) + eps) [* weight]
// Input level: imported graph, before folding. Output level: the same, with rms_norm ops; the parts
// become dead. It is after both import routes, since neither keeps such a norm whole.
// It cannot handle a norm whose parts are read elsewhere only in that the parts then stay.
#pragma once

#include "compiler/ir/graph.h"

namespace piper::frontend {

ir::Graph recognise_rms_norm(ir::Graph graph);

}  // namespace piper::frontend
