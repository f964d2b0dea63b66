// The operator-by-operator route from an ONNX graph to the model graph: for files whose nodes do
// not carry their ATen calls, opsets 13 to 28. What is known when the model is compiled (shapes,
// masks, positions) is folded on the way; linear layers, attention and group normalisation are put
// together again where exporters took them apart.
// It does not open files, bind symbols or make parameters: the bound model holds them already.
#pragma once

#include "compiler/diag/diagnostics.h"
#include "compiler/frontend/bound_model.h"
#include "compiler/frontend/onnx/node_import.h"
#include "schemas/base/status.h"

namespace piper::frontend::onnx {

// Appends the ops of every node, sets the graph's outputs and adds every named value to
// `model.values`.
// Errors, each naming node, module and Python line: P0308 the opset is outside 13 to 28; P0305 an
// operator is not supported; P0306 a form of a supported one is not, or the graph is malformed;
// P0321 random numbers; P0322, P0324 batch normalisation without batch statistics or whose running
// ones are no state; P0323 a shape that depends on data; P0325 a dropout ratio outside [0, 1).
Status import_nodes(BoundModel& model, diag::Diagnostics& diags, const FoldLimits& limits = {});

}  // namespace piper::frontend::onnx
