// A model bound to a piece of a step: from the importer of a file, which binds to one number of samples, to the graph
// that is the slice of the step (slice_of_step.h), also for pieces of so few samples that the importer finds another
// program for them (instantiate.h).
#pragma once

#include <functional>

#include "compiler/diag/diagnostics.h"
#include "compiler/frontend/model_file.h"
#include "compiler/frontend/model_values.h"
#include "compiler/ir/graph.h"

namespace piper::frontend {

// A file's graph as imported, before fold.
using Import = std::function<Result<ir::Graph>(const BindRequest&, diag::Diagnostics&)>;

// The graph for `request`. Errors: those of the importer, and P0336.
Result<BoundGraph> bind_slice(const ModelValues& values, const BindRequest& request, const Import& import,
                              diag::Diagnostics& diags);

}  // namespace piper::frontend
