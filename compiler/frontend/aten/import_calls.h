// The ATen route: turns the calls of an ONNX file into ops of a bound graph, and checks each result
// against the dtype and shape that the file declares for it. ONNX operators are never looked at.
// Used by onnx_model.cc; the other route is onnx/import_nodes.
#pragma once

#include "compiler/diag/diagnostics.h"
#include "compiler/frontend/aten/call_groups.h"
#include "compiler/frontend/bound_model.h"
#include "compiler/frontend/export_metadata.h"

namespace piper::frontend::aten {

// Appends the ops of every call that an output depends on and sets the graph's outputs.
// Errors, each naming the node, its module and its Python line: P0305 an operator that is not
// supported, P0306 a form of one that is not, or a result that is not what the file declares, P0304
// a name that nothing defines, P0310 a lost parameter, P032x what would change the training silently.
Status import_calls(BoundModel& model, const CallGroups& groups, const ExportMetadata& metadata,
                    diag::Diagnostics& diags);

}  // namespace piper::frontend::aten
