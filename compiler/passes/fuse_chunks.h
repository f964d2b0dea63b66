// Joins what passes that cut at conversions left of a region to its neighbours where the strategy treats them alike, so
// that they run as one program.
//
// The tag of a mixture is there to shard its experts. What routes to them, and what is between two mixtures, has
// one place, one stream and one time; each border between them would cost an instruction per pass and microbatch and
// keep values in the arena.
//
// Neighbours are chunks of compute of which one id follows the other. They stay apart where a message would leave or be
// awaited between them (of the first one's results, or for the second one): what can overlap with it must end there. A
// fused chunk has the tags that all its members have; its name is that of the member with just these tags, else the
// first one's. The regions of its members become one, with one accumulator for each parameter and buckets over all of
// it.
#pragma once

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/module.h"

namespace piper::passes {

// Joins neighbours on the same devices, streams and settings, split alike, and told apart by no filter of an order.
// Tags matter to orders alone: every other directive is in the chunks' properties by then. Chunks that are recomputed
// stay as they are: where one ends is where its values are kept.
Status fuse_chunks(ir::Module& module, diag::Diagnostics& diags);

}  // namespace piper::passes
