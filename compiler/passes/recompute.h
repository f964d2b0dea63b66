// Drops what the forward of chosen chunks saves: its backward computes it again from the chunk's inputs, by copies of
// forward ops with phase kBackward. Inputs of the chunk, which other chunks made, are kept until the backward; what
// another chunk of the same devices keeps in this way is not repeated. Random masks are functions of counters, so the
// copies give the same values. An op that changes state (running statistics) is not repeated: its results stay saved.
// Where ChunkProperties::repeats names operators, modules or a share of the layers, results of the others stay saved,
// too. Sequences that a chunk gathers from parts are dropped as well, whether or not it is recomputed, and gathered
// again; of tokens that experts received the same holds where all operators of their chunk are repeated
// (tensors/gather_again.h).
#pragma once

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/module.h"

namespace piper::passes {

// What all microbatches of a chunk repeat is repeated in its graph; what only some do, in a second
// one, which these run instead (ModelVariant::repeating). Error P0512: variants of other structures.
Status recompute(ir::Module& module, diag::Diagnostics& diags);

}  // namespace piper::passes
