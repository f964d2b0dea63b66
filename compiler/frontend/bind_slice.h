// A model bound to a piece of a step: from the importer of a file, which binds to one number of samples, to the graph
// that is the slice of the step (slice_of_step.h), also for pieces of one sample (instantiate.h).
#pragma once

#include <functional>

#include "compiler/diag/diagnostics.h"
#include "compiler/frontend/model_values.h"
#include "compiler/ir/graph.h"

namespace piper::frontend {

// A file's graph as imported, before fold.
using Import = std::function<Result<ir::Graph>(const BindRequest&, diag::Diagnostics&)>;

// The graph for `request`. Errors: those of the importer, and P0336.
Result<ir::Graph> bind_slice(const ModelValues& values, const BindRequest& request, const Import& import,
                             diag::Diagnostics& diags);
// ModelFile::samples_like.
int64_t samples_like(const ModelValues& values, int64_t piece, int64_t step_batch);

}  // namespace piper::frontend
