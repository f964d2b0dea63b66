// Cuts a bound forward graph into chunks by the strategy's annotations.
//
// Input level: folded graph. Output level: the same graph with `chunk` set on every op; ops that
// depend on no parameter and carry no tag (masks, positions, label shifts) are copied into every region
// that reads them; where a region between two starts has no other, those that read inputs are its work. It is
// before normalise_losses and autodiff: the order of gradient sums depends on chunks. Views and casts of weights are
// copied into every chunk that reads them, which then reads the parameter itself. Untagged ops that depend on a
// parameter join the first region that reads them, else the last one that they read from; `--verbose` remarks say where
// each went. It cannot cut an op in two.
#pragma once

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/chunks.h"
#include "compiler/regions/add_model_tags.h"
#include "schemas/base/glob.h"
#include "compiler/strategy/strategy.h"

namespace piper::regions {

// Globs match module paths (`*` matches any characters, dots too; a leading `*.` also matches nothing; a
// match is a whole module, never a name prefix). starts: region k = all ops, in op order, from the first op whose
// module path matches starts[k] to the first match of starts[k+1]. modules: each matching module is one region,
// numbered in graph order. Errors: P0210 a glob that matches nothing (lists near module paths), P0211 starts not in
// graph order, P0212 a backward-flowing region (later region feeds an earlier one).
// Of a strategy its annotations are read, and which tag all ops need.
// `model_tags`: the model's own annotations; those of the strategy go before them. P0316: they leave out an index.
Result<ir::ChunkedGraph> cut_chunks(ir::Graph graph, const strategy::Strategy& strategy, diag::Diagnostics& diags,
                                    const ModelTags& model_tags = {});

}  // namespace piper::regions
