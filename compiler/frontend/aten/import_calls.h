// The ATen route: turns the calls of a program into ops of a bound graph, and checks each result
// against the dtype and shape that the file declares for it. Used by onnx_model.cc (ONNX operators
// are never looked at; the other route is onnx/import_nodes) and by pt2_model.cc.
#pragma once

#include "compiler/diag/diagnostics.h"
#include "compiler/frontend/aten/program.h"
#include "compiler/frontend/bound_model.h"

namespace piper::frontend::aten {

// Appends the ops of every call that an output depends on and sets the graph's outputs.
// Errors, each naming the call, its module and its Python line: P0305 an operator that is not
// supported, P0306 a form of one that is not, or a result that is not what the file declares, P0304
// a name that nothing defines, P0310 a lost parameter, P032x what would change the training silently.
Status import_calls(BoundModel& model, const Program& program, diag::Diagnostics& diags);

}  // namespace piper::frontend::aten
