// Turns the module of a training step into one that evaluates: every variant's graph keeps its forwards alone, in which
// nothing is dropped out and batch norms read their running statistics; the loss becomes what is reported of it
// (take_means.h). Devices, chunks and where the state of training lies are left as they are; programs, schedule and
// DAG are gone, and are made anew by the passes that make them for a step.
//
// Input: an ordered module; of a graph alone, one after autodiff. Statistics of a batch norm that keeps none are those
// of a piece, as in training. Used by driver/derive_evaluation and driver/make_reference.
#pragma once

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/module.h"
#include "schemas/base/status.h"

namespace piper::evaluation {

// `asked`: where the strategy asks for it. Error P0335: take_means.
Status keep_forwards(ir::Module& module, const diag::Span& asked, diag::Diagnostics& diags);
// The same of one graph, for pieces of so many samples.
Result<ir::Graph> forwards_of(const ir::Graph& step, int64_t samples, const diag::Span& asked,
                              diag::Diagnostics& diags);

}  // namespace piper::evaluation
