// Makes attention with a sink s attention without one, and attention_sink of its result and statistics:
//   y = sigmoid(lse0 - s) y0,  lse = log(exp(lse0) + exp(s))
// so that kernels of attention know no sinks. After autodiff: the gradients of queries, keys and values are those
// kernels' own of y and lse, which are all that they read of the forward (Dao et al., "FlashAttention", 2022, algorithm
// 4). Derivatives of the two operators would go through lse0, of which no kernel takes a gradient.
#pragma once

#include "compiler/ir/module.h"

namespace piper::passes {

void part_sinks(ir::Module& module);

}  // namespace piper::passes
