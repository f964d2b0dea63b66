// Rewrites the loss so that the step's loss is the SUM of the pieces' losses (a piece = one
// microbatch on one replica), each mean over the batch being sum x 1/global count.
//
// Input level: chunked forward graph, `loss` set. Output level: cross_entropy_loss, nll_loss, mse_loss gone.
// A value is *linear to the loss* when the loss depends on it only through add, sub, neg, mul/div by a value that
// is the same for every piece, reshape, cast, cat, sum. A mean over the batch that is linear to the loss becomes sum x
// 1/count with the global count: a constant where every element counts; where labels can be ignored,
// reciprocal(step_sum(cross_entropy_count(labels))) built from copies of the label ops with phase kCount, and
// kCountFinish after step_sum. A factor or divisor made of batch sums that no parameter enters (the number of positions
// of a loss mask) is made so too. Any other use of a value that mixes samples is not separable: with pieces > 1 it is
// error P0331 naming the op, its module and what `per_microbatch` would mean, unless `per_microbatch` covers the op's
// module ("*" alone also covers the root); then the statistic is the piece's own, and enters the loss with weight
// 1/pieces. A value that is the same for every piece enters with weight 1/pieces too. Where nothing is cut everything
// is left as it is except the loss operators. It is after cut_chunks (count ops take the chunk of their loss op)
// and before autodiff.
#pragma once

#include <string>
#include <vector>

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/module.h"
#include "compiler/analysis/track_batch.h"

namespace piper::passes {

struct StepShape {
  int64_t pieces = 1;  // microbatches x replicas
  bool cut =
      false;  // another group has several: with one piece, too, the graph gets the structure that it has with more
  diag::Span cut_by = {};  // where the strategy cuts the batch, for messages; line 0: not known
};
Status normalise_losses(ir::Graph& graph, const analysis::BatchMap& batch, const StepShape& step,
                        const std::vector<std::string>& per_microbatch, diag::Diagnostics& diags);

// On every variant, the fewest samples first.
Status normalise_losses(ir::Module& module, diag::Diagnostics& diags);
}  // namespace piper::passes
