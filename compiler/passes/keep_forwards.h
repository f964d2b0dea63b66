// Turns the module of a training step into one that evaluates: every variant's graph keeps its forwards alone, in which
// nothing is dropped out and batch norms read their running statistics; the loss becomes what is reported of it
// (take_means.h). Devices, chunks and where the state of training stands are left as they are; programs, schedule and
// DAG are gone, and are made anew by the passes that make them for a step.
//
// Input: an ordered module. Statistics of a batch norm that keeps none are those of a piece, as in training.
#pragma once

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/module.h"

namespace piper::passes {

// `asked`: where the strategy asks for it. Error P0335: take_means.
Status keep_forwards(ir::Module& module, const diag::Span& asked, diag::Diagnostics& diags);

}  // namespace piper::passes
