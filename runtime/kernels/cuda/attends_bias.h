// What a predicate of attention (schemas/forms/attends.h) adds to the scores of a block of queries, by LibTorch's
// operators, so that nothing of queries x keys is ever there.
#pragma once

#include <vector>

#include "runtime/kernels/binding.h"
#include "schemas/forms/attends.h"
#include "schemas/forms/form_program.h"

namespace piper::kernels::cuda {

// Queries of a block and the keys that any of them may attend to, one at least.
struct AttendsBlock {
  int64_t query = 0, queries = 0, key = 0, keys = 0;
};
// Blocks of attends_queries_on_gpu() (schemas/plan/kernel_scratch.h), in their order.
std::vector<AttendsBlock> blocks_of(const form::Attends& attends, int64_t batch);

// Bool [batch or 1, 1, queries, keys]: where the block's queries attend. `vectors` i64 [batch or 1, 1, vectors,
// places], on the device; undefined where nothing is read.
at::Tensor attends_in(const AttendsBlock& block, const std::vector<form::Step>& steps, const at::Tensor& vectors,
                      at::Device device);

}  // namespace piper::kernels::cuda
