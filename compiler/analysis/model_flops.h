// How many floating-point operations a training step of the model has, whatever the strategy: what MFU compares with a
// device's peak (Chowdhery et al. 2022, "PaLM", section 4.1 and appendix B). Not a pass; read by bind_model.
//
// Counted are products alone: 2 x M x N x K for matmul and linear, the same over the window for a convolution, for each
// row of a grouped product (as if experts with a capacity had a row in each place), and two products for attention,
// of all queries with all keys, also where a mask hides some. The forward counts once, and again for each operand
// whose gradient a trained parameter needs; of attention that is up to twice the forward.
// Left out: everything that is no product (norms, activations, softmax, embeddings, losses, the optimizer), products
// that do not depend on both an input and a parameter (masks, position tables), and what is computed again: by
// `recompute`, or inside of a kernel.
#pragma once

#include "compiler/ir/graph.h"

namespace piper::analysis {

// For the forward of one op; 0 where it is no product.
double product_flops(const ir::Graph& graph, const ir::Op& op);
// For forward and backward of the graph's samples together. `graph`: a forward with its loss, bound to some number of
// samples, before everything that a strategy changes. Proportional to the samples.
double model_flops(const ir::Graph& graph);

}  // namespace piper::analysis
