// Attention stays within the documents that are packed into a sample, in a model that knows nothing of documents.
//
// Input level: folded graph, whose masks of attention are predicates. Output level: the same graph, where every
// attention reads the number of each place's document and has `r[q] - r[k] = 0` in its predicate
// (schemas/forms/attends.h): never a mask of queries x keys. It changes nothing else: what mixes the places of a sample
// in another way (a convolution, a recurrence, positions that the model counts itself) goes on across the ends of
// documents.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/graph.h"

namespace piper::frontend {

// `input`: the name of the graph's input i64 [samples, places] of document numbers, made where there is none. P0255:
// the model has no attention, or one that cannot be kept within documents; nothing has changed then.
Status mask_documents(ir::Graph& graph, const std::string& input, int64_t samples, const diag::Span& span,
                      diag::Diagnostics& diags);

}  // namespace piper::frontend
