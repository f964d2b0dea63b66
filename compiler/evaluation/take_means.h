// Takes the loss of a graph of forwards apart into means (ir::Graph::means): sums over the samples of a piece and what
// they count, which add up over pieces, devices and batches; the reader of the log divides. So the loss of several
// batches is the mean over all of their terms, and nothing has to be counted before a forward.
//
// Terms are found through everything in which the loss is linear: sums, differences, factors that are the same for all
// batches, values that are joined. A term is what is times the inverse of a count of the batch, or divided by a number
// of the batch that no parameter enters; whatever else there is, is a mean without a count. What was around a term is
// made again around its sum. Input: ops in order, of forwards and of the counts before them; the latter are forwards
// after it.
#pragma once

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/graph.h"

namespace piper::evaluation {

// `samples`: of a piece. Error P0335 at `asked`: the loss depends on a number of the whole batch in another way.
Status take_means(ir::Graph& graph, int64_t samples, const diag::Span& asked, diag::Diagnostics& diags);

}  // namespace piper::evaluation
