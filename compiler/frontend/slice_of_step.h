// Makes of a model that was imported for a piece of the batch the slice of the computation on the whole batch, which is
// what a strategy cuts. Without it a piece is the model called on fewer samples, and values that have the batch in
// their shape though no sample is in them, such as torch.ones_like(x), a range over the batch or a parameter expanded
// over it, would have the first piece's positions and be counted once for each piece.
//
// Input level: two graphs as imported, before fold, of the same file bound to a piece and to the whole. Output level:
// that of the piece, where
//   numbers made of such values (mask.sum()) are those of the whole;
//   values of which every sample has the same are an `expand` whose attribute `samples` says which axis is the batch;
//   all others are rows of the whole's value, from `sample_offset` on;
//   a slice of whole batches out of several on one axis is a slice of an axis that counts batches;
//   what rows of samples are read by, and what such indices are made of, stays the piece's.
// Modules of `per_piece` keep the values of the piece, as if called on it: numbers, and a range over as many places as
// the piece's experts have.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/graph.h"

namespace piper::frontend {

struct SliceOfStep {
  int64_t piece = 1, whole = 1;  // samples that the two graphs are bound to, piece < whole
  int64_t step = 1;              // samples of the step; more than `whole` where the file allows no batch of so many
  std::function<bool(const std::string&)> per_piece;
};
// P0336: the operators differ, or a number that is no extent does, or a value cannot be sliced.
Result<ir::Graph> slice_of_step(ir::Graph piece, const ir::Graph& whole, const SliceOfStep& step,
                                diag::Diagnostics& diags);

}  // namespace piper::frontend
