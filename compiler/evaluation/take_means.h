// Takes the loss of a graph of forwards apart into means (ir::Graph::means): sums over the samples of a piece and what
// they count, which add up over pieces, devices and batches; the reader of the log divides. So the loss of several
// batches is the mean over all of their terms, and nothing has to be counted before a forward.
//
// Terms are found where normalise_losses and spread_losses leave them: addends of the loss, perhaps scaled, that are
// times the inverse of a count of the batch, or divided by a number that no parameter enters. Whatever else an addend
// is, it is a mean without a count. Input: ops in order, of forwards and of the counts before them; the latter are
// forwards after it.
#pragma once

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/graph.h"

namespace piper::evaluation {

// `samples`: of a piece. Error P0335 at `asked`: the loss depends on a number of the whole batch in another way.
Status take_means(ir::Graph& graph, int64_t samples, const diag::Span& asked, diag::Diagnostics& diags);

}  // namespace piper::evaluation
