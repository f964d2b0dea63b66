// Cuts weights of chunks over the places of a device group: on every place a chunk has a part of the output features of
// some products, of what is computed from them, and of the input features of the products that sum over them again
// (Shoeybi et al., "Megatron-LM" (2019), section 3). tensors/follow_cuts.h finds which.
//
// Input level: chunked forward graph with normalised losses. Output level: the same for one place: cut parameters are
// parts (Parameter::cut), values between are parts, `enter` marks what parts read whole, and `all_reduce` adds up what
// each place has summed; a bias comes after the sum. Each of these is a chunk of its own (Chunk::exchange). All results
// that other operators read keep their types and values. It is before autodiff: the derivative of a conversion is
// the other one. Run once per local batch: the structure depends on the model alone.
#pragma once

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/module.h"

namespace piper::passes {

// On every variant, by the cuts of the distribution, whose rows it refines. Errors: P0256 a named weight that cannot be
// cut, P0257 one that the places do not divide, P0258 a glob that matches no weight of a product. A remark says what is
// cut.
Status partition_tensors(ir::Module& module, diag::Diagnostics& diags);

}  // namespace piper::passes
